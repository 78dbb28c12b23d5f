"""Setting one key of a TOML text, with all else as it was.

Pure. What comes out is read again by `tomllib` before it counts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence

import tomli_w

from mcpd.config.places import Span, spans


class Uneditable(Exception):
    """The edit would change more than it should; the text stays as it is."""


def put(text: str, key: str, value: str | Sequence[str]) -> str:
    """The text with a key of its top level set, and all else as it was, comments included.

    A list keeps the order of its members, what is new comes last; over several lines only members that
    come or go are touched. Raises Uneditable.
    """
    before = tomllib.loads(text)
    if not isinstance(value, str):
        value = _in_order(before.get(key), value)
    found = next((span for span in spans(text) if span.path == (key,)), None)
    if found is None:
        new = _appended(text, key, value)
    elif isinstance(value, str) or "\n" not in text[found.start : found.end]:
        new = text[: found.start] + _written(value) + text[found.end :]
    else:
        new = _relisted(text, found, value)
    if _read(new) != {**before, key: value}:
        raise Uneditable(f'"{key}" cannot be changed without changing what stands around it')
    return new


def _in_order(held: object, wanted: Sequence[str]) -> list[str]:
    kept = [value for value in held if value in wanted] if isinstance(held, list) else []
    return list(dict.fromkeys([*kept, *wanted]))


def _read(text: str) -> object:
    """None for what is no TOML."""
    try:
        return tomllib.loads(text)
    except ValueError:
        return None


def _written(value: str | Sequence[str]) -> str:
    if isinstance(value, str):
        return tomli_w.dumps({"k": value}).removeprefix("k = ").rstrip("\n")
    return f"[{', '.join(map(_written, value))}]"


def _appended(text: str, key: str, value: str | Sequence[str]) -> str:
    head = text if not text or text.endswith("\n") else text + _newline(text)
    return f"{head}{key} = {_written(value)}{_newline(text)}"


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _relisted(text: str, whole: Span, wanted: Sequence[str]) -> str:
    """A list over several lines: members that are not wanted go with their commas, new ones come last."""
    members = [s for s in spans(text) if len(s.path) == 2 and s.path[:1] == whole.path]
    held = tomllib.loads(text)[str(whole.path[0])]
    edits: list[tuple[int, int, str]] = []
    kept: list[str] = []
    last: Span | None = None
    for member, value in zip(members, held, strict=True):
        if value in wanted and value not in kept:
            kept.append(value)
            last = member
        else:
            edits.append(_removal(text, member, whole.end))
    added = [value for value in wanted if value not in kept]
    if added:
        edits += _additions(text, whole, last, added)
    for start, end, piece in sorted(edits, reverse=True):
        text = text[:start] + piece + text[end:]
    return text


#: Possessive: a comma within a comment is none.
_COMMA = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+,")
_REST = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\r?\n)?")


def _removal(text: str, member: Span, limit: int) -> tuple[int, int, str]:
    comma = _COMMA.match(text, member.end, limit)
    end = comma.end() if comma else member.end
    start = member.start
    line = text.rfind("\n", 0, start) + 1
    rest = _REST.match(text, end, limit)
    if not text[line:start].strip() and rest is not None and rest.group().endswith("\n"):
        return line, rest.end(), ""  # the member has lines of its own
    return start, end, ""


def _additions(text: str, whole: Span, last: Span | None, added: Sequence[str]) -> list[tuple[int, int, str]]:
    """New members behind the `last` that stays, each on a line of its own."""
    newline = _newline(text)
    if last is None:
        return [(whole.start + 1,) * 2 + ("".join(f"{newline}    {_written(value)}," for value in added),)]
    before = text[text.rfind("\n", 0, last.start) + 1 : last.start]
    indent = before if not before.strip() else "    "
    comma = _COMMA.match(text, last.end, whole.end)
    at = comma.end() if comma else last.end
    rest = _REST.match(text, at, whole.end)
    if rest is not None and rest.group().endswith("\n"):
        new = "".join(f"{indent}{_written(value)},{newline}" for value in added)
        return [(rest.end(), rest.end(), new), *([] if comma else [(at, at, ",")])]
    # Something else stands on the line: the next member, or the end of the list.
    new = "".join(f"{newline}{indent}{_written(value)}," for value in added)
    return [(at, at, ("" if comma else ",") + new)]
