"""How results of native methods, those besides tools/call, reach an agent: within the cap (a18), and with
URIs that say whose they are in views of several servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from mcpd.catalog import completion, content, readout, tasks
from mcpd.catalog.content import Bounded
from mcpd.catalog.qualify import qualify_content, qualify_contents, qualify_messages


def bound(method: str, result: bytes, payload: bytes, cap: int, prefix: str) -> Bounded:
    """The server's result as the agent gets it; `payload`: the params, without braces; `prefix`: the server's
    name where URIs bear it. Raises Failure `bad_answer`, KeyError for another method."""
    return _BOUNDS[method](result, payload, cap, prefix)


class _Uri(msgspec.Struct):
    uri: str


def _bound_read(result: bytes, payload: bytes, cap: int, prefix: str) -> Bounded:
    uri = msgspec.json.decode(b"{" + payload + b"}", type=_Uri).uri
    bounded = readout.bound_read(result, cap, uri)
    return qualify_contents(bounded, prefix) if prefix else bounded


def _bound_prompt(result: bytes, payload: bytes, cap: int, prefix: str) -> Bounded:
    bounded = readout.bound_prompt(result, cap)
    return qualify_messages(bounded, prefix) if prefix else bounded


def _bound_completion(result: bytes, payload: bytes, cap: int, prefix: str) -> Bounded:
    return completion.bound(result, cap)


def _bound_result(result: bytes, payload: bytes, cap: int, prefix: str) -> Bounded:
    bounded = content.bound(result, cap)
    return qualify_content(bounded, prefix) if prefix else bounded


def _bound_task(result: bytes, payload: bytes, cap: int, prefix: str) -> Bounded:
    return tasks.detail(result, cap, prefix)


def _bound_answer(result: bytes, payload: bytes, cap: int, prefix: str) -> Bounded:
    return Bounded(b"{}")


_BOUNDS: Final[dict[str, Callable[[bytes, bytes, int, str], Bounded]]] = {
    "resources/read": _bound_read,
    "prompts/get": _bound_prompt,
    "completion/complete": _bound_completion,
    "resources/subscribe": _bound_answer,
    "subscriptions/listen": _bound_answer,
    "tasks/get": _bound_task,
    "tasks/result": _bound_result,
    "tasks/update": _bound_answer,
    "tasks/cancel": _bound_task,
}
