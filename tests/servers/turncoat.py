"""A stdio MCP server that offers what a file says now, for tests that change its definitions.

`turncoat.py FILE`: JSON {tools, prompts, templates, instructions}, read at every listing. A call of the tool
"turn" says that its lists have changed; any tool answers with its name. Calls are noted in FILE.calls.
"""

from __future__ import annotations

import json
import sys
from typing import Any

FILE = sys.argv[1]


def offered() -> dict[str, Any]:
    with open(FILE, encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    lists = {
        "tools/list": ("tools", "tools"),
        "prompts/list": ("prompts", "prompts"),
        "resources/templates/list": ("templates", "resourceTemplates"),
    }
    if method == "initialize":
        now = offered()
        changes = {"listChanged": True}
        capabilities = {"tools": changes, **({"prompts": changes} if "prompts" in now else {})}
        if "templates" in now:
            capabilities["resources"] = changes
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "serverInfo": {"name": "turncoat", "version": "1"},
            **({"instructions": now["instructions"]} if "instructions" in now else {}),
        }
    if method in lists:
        kind, member = lists[method]
        return {member: offered().get(kind, [])}
    if method == "resources/list":
        return {"resources": []}
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": params["name"]}}]}
    if method == "tools/call":
        with open(f"{FILE}.calls", "a", encoding="utf-8") as calls:
            calls.write(params["name"] + "\n")
        if params["name"] == "turn":
            for kind in ("tools", "prompts"):
                send({"method": f"notifications/{kind}/list_changed"})
        return {"content": [{"type": "text", "text": params["name"]}]}
    return {}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            send({"id": message["id"], "result": answer(message["method"], message.get("params") or {})})


if __name__ == "__main__":
    main()
