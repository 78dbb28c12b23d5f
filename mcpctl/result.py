"""A tool's result for people: text as it is, everything else in a line."""

from __future__ import annotations

import json

from mcpctl import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def say_result(result: Any, say: Callable[[str], None] = output.say) -> None:
    """A CallToolResult for people: text as it is, everything else in a line."""
    blocks = result.get("content")
    for block in blocks if isinstance(blocks, list) else ():
        say(output.visible_block(block_text(block) if isinstance(block, dict) else json.dumps(block)))
    if not blocks and "structuredContent" in result:
        say(output.visible_json(json.dumps(result["structuredContent"], indent=2, ensure_ascii=False)))


def note_cuts(result: Any, member: str) -> None:
    """Say beside an answer what mcpd left out of it (a18)."""
    for reason in left_out(result.get(member)):
        setting = " (max_result in config.toml)" if "the limit is" in reason else ""
        output.note(f"the answer is cut: {reason}{setting}")


def left_out(parts: Any) -> list[str]:
    """What mcpd says that it left out, in texts of its own at the end: content blocks, the parts of a
    resource, messages of a prompt."""
    reasons: list[str] = []
    for part in parts[::-1] if isinstance(parts, list) else ():
        inner = part.get("content", part) if isinstance(part, dict) else None
        text = inner.get("text") if isinstance(inner, dict) else None
        if not isinstance(text, str) or not (text.startswith("[mcpd: ") and "left out" in text):
            break
        reasons.insert(0, text.removeprefix("[mcpd: ").removesuffix("]"))
    return reasons


def block_text(block: dict[str, Any]) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind in ("image", "audio"):
        return binary(block.get("mimeType"), block.get("data"))
    if kind == "resource":
        inner = block.get("resource")
        inner = inner if isinstance(inner, dict) else {}
        return str(inner["text"]) if "text" in inner else binary(inner.get("mimeType"), inner.get("blob"))
    if kind == "resource_link":
        return f"[resource {block.get('uri')}]"
    return f"[{kind}]"


def binary_of(block: Any) -> object:
    """The base64 data of a content block; nothing for one that has none."""
    if not isinstance(block, dict):
        return None
    inner = block.get("resource")
    return block.get("data") or (inner.get("blob") if isinstance(inner, dict) else None)


def binary(mime: object, data: object) -> str:
    """The summary of base64 data, with its decoded size (a17)."""
    text = str(data or "").rstrip("=")
    return f"[binary {mime or 'application/octet-stream'}: ~{len(text) * 3 // 4} bytes]"
