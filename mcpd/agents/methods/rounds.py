"""Requests in whose course a server may ask the agent: the rounds of 5.13, and both eras' ways (8.2)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import msgspec
import trio

from mcpd import calls
from mcpd.agents import states
from mcpd.agents.asks import LIFE, Shown
from mcpd.agents.methods import logs
from mcpd.agents.methods.request import Request
from mcpd.agents.parked import Call
from mcpd.agents.session import Session
from mcpd.catalog import content
from mcpd.catalog.content import Bounded
from mcpd.errors import Failure, ServerError
from mcpd.policy import asks
from mcpd.policy.asks import BadAnswer, Refused
from mcpd.protocol import jsonrpc
from mcpd.protocol.abilities import NONE
from mcpd.protocol.input import (
    ELICIT,
    MOST,
    ROOTS,
    Question,
    Wanted,
    read_responses,
    read_retry,
    round_members,
    wanted_result,
)
from mcpd.protocol.shapes import read_result
from mcpd.rows import Row
from mcpd.upstream.step import Step
from mcpd.upstream.upstream import Upstream

#: A server of 2025-11-25 wants the agent to visit addresses before it asks again (2.1, 5.12).
VISIT_REQUIRED = -32042


class _Visit(msgspec.Struct, frozen=True):
    """`data` of such an error."""

    elicitations: list[msgspec.Raw] = []


class InputRequired(Failure):
    """The agent is asked by the answer to its request; what was not known yet has not been done."""

    def __init__(self, result: bytes) -> None:
        super().__init__("input_required", "the server needs answers first")
        self.result = result


class Round(msgspec.Struct, frozen=True):
    """What the agent's next request must bring back of a round with a stateless server."""

    server: str
    since: float
    """When it was handed out (trio clock, which is good for this run as the state is)."""
    asked: dict[str, Question]
    """The questions as the agent has got them."""
    given: dict[str, msgspec.Raw]
    """Answers that there are already."""
    state: str | None
    """The server's own."""


_ROUND = msgspec.json.Decoder(Round)


async def call(session: Session, request: Request, row: Row, payload: bytes, meta: bytes) -> bytes:
    """`calls.call`, its result dressed for the agent; or questions, which its next request answers.

    Raises what `calls.call` does, and Failure `invalid_params` for a state that was not made for this
    request.
    """
    if request.meta is not None and request.meta.log_level is not None:
        await logs.carried(session, request, row.upstream, request.meta.log_level)
    with visiting(request, row):
        if request.stateless and not _is_plain(request, row):
            return await _call_stateless(session, request, row, payload, meta)
        result = await calls.call(
            session.broker, session.caller, row, payload, meta, request.ticket, request, step(request, row)
        )
        return dressed(request, result)


@contextmanager
def visiting(request: Request, row: Row) -> Iterator[None]:
    """What a server says of addresses to be visited first, its agent learns as it may."""
    try:
        yield
    except ServerError as e:
        if e.server_code != VISIT_REQUIRED:
            raise
        raise _visits(request.by, request, row.upstream, e) from None


def dressed(request: Request, result: Bounded) -> bytes:
    """A result as its agent's era has it."""
    stateless = request.meta is not None
    return result.text if result.typed == stateless else content.dress(result, stateless=stateless)


def can_begin(request: Request, row: Row) -> bool:
    """Whether nothing has to be done for a stateless request before it is sent."""
    return request.meta is not None and request.meta.log_level is None and _is_plain(request, row)


def step(request: Request, row: Row) -> Step:
    """By which a request is sent in whose course the agent is asked at once, if it can be."""
    if _is_plain(request, row):
        return calls.PLAIN
    return calls.rounds(partial(_ask, request.by, request))


def _is_plain(request: Request, row: Row) -> bool:
    """Whether nobody can be asked in its course, and it brings no answers: most requests are so."""
    if request.abilities or row.upstream.relay.fixed:
        return False
    params = request.params
    return request.meta is None or not (b'"requestState"' in params or b'"inputResponses"' in params)


async def _call_stateless(session: Session, request: Request, row: Row, payload: bytes, meta: bytes) -> bytes:
    session.abilities |= request.abilities
    retry = read_retry(request.params)
    responses = read_responses(bytes(retry.input_responses))
    first = b""
    if retry.request_state is not None:
        before = _before(session, request, row, retry.request_state)
        if isinstance(before, Call):
            return await session.parked.resume(before, request, responses)
        first = _answered(session, request, before, responses)
        responses = {}
    rounds = calls.rounds(partial(_hand_out, session, request, responses), first)
    outcome: bytes | Failure = Failure("internal", "internal error of mcpd")
    try:
        result = await calls.call(
            session.broker, session.caller, row, payload, meta, request.ticket, request, rounds
        )
        outcome = content.dress(result, stateless=True)
    except InputRequired as e:
        outcome = e.result
    except Failure as e:
        outcome = e
        raise
    finally:
        if request.parked is not None:
            session.parked.finish(request.parked, outcome)
    return outcome


# ------------------------------------------------------------ agents with a handshake


async def _ask(session: Session, request: Request, upstream: Upstream, wanted: Wanted) -> bytes:
    """Put all questions of a stateless server to the agent at once, and wait for its answers."""
    given, shown = _sort(session, request, upstream, wanted, {})

    async def ask(key: str, question: Shown) -> None:
        try:
            given[key] = (await session.asks.ask(request, question)).result
        except Refused as e:
            refused.append(e)
            nursery.cancel_scope.cancel()

    refused: list[Refused] = []
    async with trio.open_nursery() as nursery:
        for key, question in shown.items():
            nursery.start_soon(ask, key, question)
    if refused:
        raise _unanswerable(upstream, refused[0].message)
    return round_members(given, wanted.request_state)


# --------------------------------------------------------------------- stateless agents


async def _hand_out(
    session: Session, request: Request, responses: dict[str, bytes], upstream: Upstream, wanted: Wanted
) -> bytes:
    """Questions go down to the agent, with a state of mcpd's own around the server's (8.2).

    `responses`: answers that the agent has sent without having been asked. Raises InputRequired.
    """
    given, shown = _sort(session, request, upstream, wanted, responses)
    if not shown:
        return round_members(given, wanted.request_state)
    round_ = Round(
        server=upstream.name,
        since=trio.current_time(),
        asked={key: each.question for key, each in shown.items()},
        given={key: msgspec.Raw(answer) for key, answer in given.items()},
        state=wanted.request_state,
    )
    text = msgspec.json.encode(round_).decode()
    state = states.seal_round(session.broker.secret, text, session.id, request.identity)
    raise InputRequired(wanted_result(round_.asked, state))


def _before(session: Session, request: Request, row: Row, state: str) -> Call | Round:
    """What a request goes on with. Raises Failure `invalid_params` for a state that is not for it, not good
    any more or not ours, which is recorded (n12)."""
    try:
        said = states.read_round(session.broker.secret, state, session.id, request.identity)
        if said.startswith("parked "):
            return session.parked.find(said.removeprefix("parked "))
        round_ = _ROUND.decode(said)
        if round_.server != row.upstream.name or round_.since + LIFE < trio.current_time():
            raise states.unknown()
    except Failure as e:
        calls.record_unfound(session.broker, session.caller, row.method, row.name, e.kind)
        raise
    return round_


def _answered(session: Session, request: Request, round_: Round, responses: dict[str, bytes]) -> bytes:
    """What goes to the server of an agent's answers: those to what it was asked, if they fit."""
    answers = {key: bytes(answer) for key, answer in round_.given.items()}
    for key, question in round_.asked.items():
        if key in responses:
            shown = Shown(round_.server, question, round_.since)
            answers[key] = _settled(session, request, shown, responses[key])
    return round_members(answers, round_.state)


# --------------------------------------------------------------------------- both


def _sort(
    session: Session, request: Request, upstream: Upstream, wanted: Wanted, responses: dict[str, bytes]
) -> tuple[dict[str, bytes], dict[str, Shown]]:
    """The answers that there are already, and the questions that the agent gets."""
    given: dict[str, bytes] = {}
    shown: dict[str, Shown] = {}
    can = upstream.relay.mask(request.abilities)
    for key, question in wanted.input_requests.items():
        if question.method == ROOTS and upstream.relay.fixed:
            given[key] = upstream.relay.fixed
            continue
        try:
            relay = upstream.relay
            each = session.asks.show(request, upstream.name, question, can, relay.spend, relay.visit)
        except Refused as e:
            if question.method != ELICIT or e.code == asks.UNDECLARED:
                raise _unanswerable(upstream, e.message) from None
            given[key] = asks.DECLINED
            continue
        if key in responses:
            given[key] = _settled(session, request, each, responses.pop(key))
        else:
            shown[key] = each
    return given, shown


def _visits(session: Session, request: Request, upstream: Upstream, error: ServerError) -> ServerError:
    """The error with the addresses as this agent may see them; it may try again when it has been there."""
    said = jsonrpc.read_error(error.raw)
    data = read_result(bytes(said.data), _Visit) if said.data else None
    relay, kept = upstream.relay, []
    can = relay.mask(request.abilities) if not request.stateless else NONE
    for visit in data.elicitations[:MOST] if data is not None else ():
        question = Question(ELICIT, visit)
        with contextlib.suppress(Refused):
            each = session.asks.show(request, upstream.name, question, can, relay.spend, relay.visit)
            session.asks.record(request, each, "ok")
            kept.append(msgspec.Raw(each.question.text))
    raw = jsonrpc.error_text(VISIT_REQUIRED, said.message, {"elicitations": kept})
    return ServerError(raw, VISIT_REQUIRED, said.words)


def _settled(session: Session, request: Request, shown: Shown, response: bytes) -> bytes:
    try:
        return session.asks.settle(request, shown, response).result
    except BadAnswer as e:
        raise Failure("invalid_params", f"cannot use inputResponses: {e}") from None


def _unanswerable(upstream: Upstream, words: str) -> Failure:
    return Failure(
        "bad_answer",
        f'server "{upstream.name}" cannot get the answers that it needs: {words}',
        server=upstream.name,
    )
