"""Tasks, in both forms: what a server says of one, and what an agent gets of that (5.15, 5.16).

2025-11-25 has them in its core, 2026-07-28 as an extension: there a task's detail says all, here its
result is asked for. Ids are of one hop: the server's own never reaches an agent (n03).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mcpd.catalog import content
from mcpd.catalog.blocks import UNREADABLE, foreign_members, one_line
from mcpd.catalog.content import Bounded
from mcpd.catalog.members import foreign_meta, join_members, split_members
from mcpd.catalog.qualify import qualify_content
from mcpd.errors import Failure
from mcpd.protocol.input import KEY, MOST, Question
from mcpd.protocol.jsonrpc import VALUES, holds_many, quoted
from mcpd.protocol.shapes import ErrorShape, read_result

RELATED: Final = "io.modelcontextprotocol/related-task"

#: Nothing follows one of these.
TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})

#: Characters of a server's id of a task, and bytes of what it says about one beside the result.
LONGEST_ID: Final = 1024
DETAIL: Final = 64 * 1024
#: Seconds that a task is known for at most, whatever its server says (5.18), and between two looks at it.
LONGEST_LIFE: Final = 86_400.0
POLL: Final = 1.0
POLL_LEAST: Final = 0.1
POLL_MOST: Final = 30.0

#: What the one form says about time in its own words.
_ERA: Final = frozenset({"resultType", "ttlMs", "cacheScope"})


class Task(msgspec.Struct, frozen=True):
    """What a server says of a task, as far as mcpd acts on it."""

    id: str
    status: str
    life: float
    """Seconds for which it says that it keeps it."""
    poll: float
    """Seconds until the next look."""


class _Said(msgspec.Struct, rename="camel"):
    task_id: str
    status: str
    ttl: Any = None
    ttl_ms: Any = None
    poll_interval: Any = None
    poll_interval_ms: Any = None


class _Related(msgspec.Struct, rename="camel"):
    task_id: str = ""


class _Meta(msgspec.Struct):
    related: _Related = msgspec.field(default_factory=_Related, name=RELATED)


class _About(msgspec.Struct):
    """Params or a result that may belong to a task."""

    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")


class _Typed(msgspec.Struct, rename="camel"):
    result_type: Any = None


def read_task(text: bytes) -> Task | None:
    """A task's state in either form; None for what is none."""
    said = read_result(text, _Said)
    if said is None or not 0 < len(said.task_id) <= LONGEST_ID:
        return None
    poll = _seconds(said.poll_interval if said.poll_interval_ms is None else said.poll_interval_ms)
    life = _seconds(said.ttl if said.ttl_ms is None else said.ttl_ms)
    return Task(
        said.task_id,
        said.status,
        LONGEST_LIFE if life is None else min(life, LONGEST_LIFE),
        POLL if poll is None else min(max(poll, POLL_LEAST), POLL_MOST),
    )


def _seconds(value: object) -> float | None:
    """Of a number of milliseconds; None where there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return None
    return value / 1000


def made_stateless(result: bytes) -> bool:
    """Whether the answer to a call is a task, of 2026-07-28."""
    if b'"task"' not in result:
        return False
    typed = read_result(result, _Typed)
    return typed is not None and typed.result_type == "task"


def made_handshake(result: bytes) -> bytes:
    """The text of the task that was made for a call, of 2025-11-25; empty where it is a usual result."""
    try:
        members = split_members(result) if b'"task"' in result else {}
    except UNREADABLE:
        return b""
    return members.get("task", b"") if "content" not in members else b""


def related_to(params: bytes) -> str:
    """The id of the task that a message belongs to; empty where it names none (5.15)."""
    if b"related-task" not in params:
        return ""
    about = read_result(params, _About)
    return about.meta.related.task_id if about is not None else ""


# ---------------------------------------------------------------- towards agents


def state(text: bytes, own: str, more: Mapping[str, bytes] | None = None) -> bytes:
    """A task's state under the id `own` of mcpd's, without anything that is not for agents.

    `more`: members that stand for the server's. Raises Failure("bad_answer") for what is no task or
    too large.
    """
    try:
        members = foreign_members(one_line(text))
        if read_task(text) is None:
            raise _odd("it is no task")
        members = {"taskId": quoted(own)} | {key: each for key, each in members.items() if key != "taskId"}
        members.pop("resultType", None)
        _relate(members, own)
        for key, each in (more or {}).items():
            members[key] = each
            if not each:
                del members[key]
        size = sum(len(each) for key, each in members.items() if key not in ("result", "inputRequests"))
    except UNREADABLE as error:
        raise _odd(str(error)) from None
    if size > DETAIL:
        raise _odd(f"it has more than {DETAIL:,} bytes")
    return b"{" + join_members(members) + b"}"


def made(result: bytes, own: str, *, stateless: bool) -> Bounded:
    """The answer to a call that a task was made for, under the id `own` (5.15, 5.16)."""
    if stateless:
        text = state(result, own)
        return Bounded(b'{"resultType":"task",' + text[1:], typed=True)
    try:
        members = foreign_members(one_line(result))
        task = state(members.pop("task", b""), own)
        meta = {"_meta": members["_meta"]} if members.get("_meta", b"")[:1] == b"{" else {}
        _relate(meta, own)
    except UNREADABLE as error:
        raise _odd(str(error)) from None
    if sum(map(len, meta.values())) > DETAIL:
        raise _odd(f"it has more than {DETAIL:,} bytes")
    return Bounded(b"{" + join_members({"task": task, **meta}) + b"}")


def detail(text: bytes, cap: int, prefix: str) -> Bounded:
    """The answer to tasks/get of the extension: a result within it is bounded as a call's own (a18), an
    error is one. The id is still the server's. `prefix`: the server's name where URIs bear it."""
    try:
        members = split_members(one_line(text))
        result = members.get("result", b"null")
        if result != b"null":
            bounded = content.bound(result, cap)
            members["result"] = (qualify_content(bounded, prefix) if prefix else bounded).text
        elif "error" in members and read_result(members["error"], ErrorShape) is None:
            raise _odd("its error is none")
    except UNREADABLE as error:
        raise _odd(str(error)) from None
    return Bounded(b"{" + join_members(members) + b"}")


def result(bounded: Bounded, own: str) -> Bounded:
    """A call's result as the answer to tasks/result, which says whose it is (5.15)."""
    members = split_members(bounded.text)
    meta = split_members(members["_meta"]) if members.get("_meta", b"")[:1] == b"{" else {}
    meta[RELATED] = b'{"taskId":' + quoted(own) + b"}"
    members["_meta"] = b"{" + join_members(meta) + b"}"
    return msgspec.structs.replace(bounded, text=b"{" + join_members(members) + b"}")


def bare(text: bytes, own: str) -> bytes:
    """A task's state in a list of tasks: without what an answer has beside it."""
    members = split_members(state(text, own))
    members.pop("_meta", None)
    return b"{" + join_members(members) + b"}"


def unrelated(text: bytes) -> bytes:
    """A result in which no task is named."""
    if b"related-task" not in text:
        return text
    try:
        members = split_members(text)
        _relate(members, "")
    except UNREADABLE:
        return text  # whoever bounds it says what is wrong
    return b"{" + join_members(members) + b"}"


def _relate(members: dict[str, bytes], own: str) -> None:
    """What `_meta` says about a task it belongs to, in place."""
    if members.get("_meta", b"")[:1] != b"{":
        return
    meta = split_members(members["_meta"])
    if RELATED not in meta:
        return
    if own:
        meta[RELATED] = b'{"taskId":' + quoted(own) + b"}"
    else:
        del meta[RELATED]
    members["_meta"] = foreign_meta(b"{" + join_members(meta) + b"}")
    if members["_meta"] == b"{}":
        del members["_meta"]


def questions(text: bytes) -> dict[str, Question]:
    """What the server wants to know for a task, by the task's own keys (5.16).

    Raises Failure("bad_answer") for what is no set of questions.
    """
    try:
        raw = split_members(text).get("inputRequests", b"null")
        if len(raw) > VALUES and holds_many(raw):
            raise _odd(f"its questions hold more than {VALUES:,} values")
        found = {} if raw == b"null" else msgspec.json.decode(raw, type=dict[str, Question])
    except UNREADABLE as error:
        raise _odd(str(error)) from None
    if len(found) > MOST or any(len(key) > KEY for key in found):
        raise _odd(f"it asks more than {MOST} questions, or names one by more than {KEY} characters")
    return found


def asked(shown: Mapping[str, Question]) -> bytes:
    """`inputRequests` for an agent."""
    return msgspec.json.encode(
        {key: {"method": each.method, "params": msgspec.Raw(each.text)} for key, each in shown.items()}
    )


def _odd(words: str) -> Failure:
    return Failure("bad_answer", f"cannot use what the server says of a task: {words}")
