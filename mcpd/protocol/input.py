"""What servers want to know of clients while they serve a request, in both eras (5.11 to 5.13).

A *question* is such a request without its envelope: the message of a server with a handshake, or one
member of the `inputRequests` of an `input_required` result. Everything read here is a peer's word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from mcpd.errors import Failure
from mcpd.protocol import jsonrpc
from mcpd.protocol.jsonrpc import ABSENT, VALUES, holds_many

ELICIT = "elicitation/create"
SAMPLE = "sampling/createMessage"
ROOTS = "roots/list"

#: Everything that a server may ask a client; `ping` is answered by mcpd itself.
QUESTIONS = frozenset({ELICIT, SAMPLE, ROOTS})

#: The only requests that may be answered by `input_required` (5.13).
ROUNDS = frozenset({"tools/call", "prompts/get", "resources/read"})

#: Questions of one round, characters of a key, and bytes of a server's own state.
MOST = 32
KEY = 200
STATE = 256 * 1024

_WORD = b'"input_required"'


class Question(msgspec.Struct, frozen=True):
    method: str
    params: msgspec.Raw = ABSENT

    @property
    def text(self) -> bytes:
        """The params' JSON text."""
        return bytes(self.params) or b"{}"


class Wanted(msgspec.Struct, frozen=True, rename="camel"):
    """An `input_required` result."""

    input_requests: dict[str, Question] = {}
    request_state: str | None = None


class Retry(msgspec.Struct, frozen=True, rename="camel"):
    """What a request that is sent again carries besides its own params."""

    input_responses: msgspec.Raw = ABSENT
    request_state: str | None = None


class _Typed(msgspec.Struct, rename="camel"):
    result_type: msgspec.Raw = ABSENT


class Elicited(msgspec.Struct, frozen=True):
    """The answer to `elicitation/create` (5.12)."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class Sampled(msgspec.Struct, frozen=True):
    """The answer to `sampling/createMessage` (5.11)."""

    role: str
    content: msgspec.Raw
    model: str


class Root(msgspec.Struct, frozen=True):
    uri: str


class Rooted(msgspec.Struct, frozen=True):
    """The answer to `roots/list` (5.11)."""

    roots: list[Root]


_RETRY = msgspec.json.Decoder(Retry)
_TYPED = msgspec.json.Decoder(_Typed)
_WANTED = msgspec.json.Decoder(Wanted)
_RESPONSES = msgspec.json.Decoder(dict[str, msgspec.Raw])


def wants_input(result: bytes) -> bool:
    """Whether a server's result is `input_required`; costs one search where it is not."""
    if _WORD not in result:
        return False
    try:
        return bytes(_TYPED.decode(result).result_type) == _WORD
    except (msgspec.DecodeError, RecursionError):
        return False


def read_wanted(result: bytes) -> Wanted:
    """Raises Failure `bad_answer` for what is no proper `input_required` result (5.13)."""
    if len(result) > VALUES and holds_many(result):
        raise _odd(f"it holds more than {VALUES:,} values")
    try:
        wanted = _WANTED.decode(result)
    except (msgspec.DecodeError, RecursionError) as e:
        raise _odd(f"it is not what input_required must be: {e}") from None
    requests = wanted.input_requests
    if not requests and wanted.request_state is None:
        raise _odd("it wants input and names none")
    if len(requests) > MOST or any(len(key) > KEY for key in requests):
        raise _odd(f"it asks more than {MOST} questions, or names one by more than {KEY} characters")
    if len(wanted.request_state or "") > STATE:
        raise _odd(f"its state has more than {STATE:,} characters")
    for question in requests.values():
        if question.method not in QUESTIONS:
            raise _odd(f"it asks for {question.method[:60]!r}, which no client is asked")
    return wanted


def _odd(words: str) -> Failure:
    return Failure("bad_answer", f"cannot use the server's result: {words}")


def wanted_result(questions: Mapping[str, Question], state: str) -> bytes:
    """An `input_required` result for a stateless agent."""
    requests = {
        key: {"method": question.method, "params": msgspec.Raw(question.text)}
        for key, question in questions.items()
    }
    return msgspec.json.encode(
        {"resultType": "input_required", "inputRequests": requests, "requestState": state}
    )


def round_members(responses: Mapping[str, bytes], state: str | None) -> bytes:
    """What is added to the params of the next round, without braces; the state byte for byte, none if
    none was given (5.13)."""
    members = []
    if responses:
        raws = {key: msgspec.Raw(response) for key, response in responses.items()}
        members.append(b'"inputResponses":' + msgspec.json.encode(raws))
    if state is not None:
        members.append(b'"requestState":' + jsonrpc.quoted(state))
    return b",".join(members)


def read_retry(params: bytes) -> Retry:
    """Raises Failure `invalid_params`."""
    try:
        return _RETRY.decode(params or b"{}")
    except (msgspec.DecodeError, RecursionError) as e:
        raise Failure("invalid_params", f"invalid params: {e}") from None


def read_responses(raw: bytes) -> dict[str, bytes]:
    """An agent's `inputResponses`, unknown keys included. Raises Failure `invalid_params`."""
    if raw in (b"", b"null"):
        return {}
    if len(raw) > VALUES and holds_many(raw):
        raise Failure("invalid_params", f"inputResponses hold more than {VALUES:,} values")
    try:
        return {key: bytes(value) for key, value in _RESPONSES.decode(raw).items()}
    except (msgspec.DecodeError, RecursionError) as e:
        raise Failure("invalid_params", f"invalid inputResponses: {e}") from None
