"""Tasks that an agent follows, each method decided as the call that made the task (a01).

Two forms that are never mixed: a part of the core of 2025-11-25 (5.15), and the extension of 2026-07-28
(5.16). Ids are mcpd's own, and good for the agent that made the task alone (n03).
"""

from __future__ import annotations

from functools import partial

import msgspec
import trio

from mcpd import calls, listing
from mcpd.agents import states
from mcpd.agents.asks import Shown
from mcpd.agents.methods.request import Request
from mcpd.agents.session import Session
from mcpd.catalog import tasks
from mcpd.catalog.content import Bounded, dress
from mcpd.catalog.tasks import Task
from mcpd.errors import Failure, ServerError
from mcpd.journal import Entry
from mcpd.policy import asks
from mcpd.policy.asks import BadAnswer, Refused
from mcpd.policy.decide import Deny
from mcpd.protocol import dialect, extensions
from mcpd.protocol.extensions import TASKS
from mcpd.protocol.input import ELICIT, QUESTIONS, ROOTS, Question, read_responses, round_members
from mcpd.protocol.jsonrpc import quoted
from mcpd.protocol.shapes import ListParams, MetaParams, TaskParams, TaskWish, UpdateParams, read_params
from mcpd.rows import Row
from mcpd.tasks import Held
from mcpd.upstream.drive import nameless
from mcpd.upstream.step import Step
from mcpd.upstream.ticket import Ticket

#: Tasks of one answer to `tasks/list`, and the seconds for their servers to say how they stand.
PAGE = 50
PATIENCE = 5.0
AT_ONCE = 8

#: Questions that a server asks for one task in all.
QUESTIONS_MOST = 256

_BEGINNING = ""


# ------------------------------------------------------------------------ made


async def make(
    session: Session, request: Request, row: Row, arguments: bytes, meta: bytes, wish: bytes
) -> bytes:
    """A call that its agent wants as a task (5.15); `wish`: its `task`, JSON text.

    Raises what `calls.call` does, and Failure `unknown_method` where the tool has none.
    """
    catalog = row.upstream.catalog
    if row.tool.task == "forbidden" or catalog is None or "tasks" not in catalog.features:
        failure = Failure("unknown_method", f'tool "{row.name}" does not run as a task', tool=row.name)
        session.broker.journal.record(Entry(caller=session.caller, about=row.about, outcome=failure.kind))
        raise failure
    said = read_params(wish, TaskWish)
    wanted = {} if said.ttl is None else {"ttl": int(max(0.0, min(said.ttl, tasks.LONGEST_LIFE * 1000)))}
    making = calls.making(msgspec.json.encode(wanted), partial(_tell_state, session))
    result = await calls.call(
        session.broker, session.caller, row, arguments, meta, request.ticket, request, making
    )
    return dress(result, stateless=False)


def _tell_state(session: Session, held: Held, raw: bytes) -> None:
    """Its server says how a task stands, unasked (5.15); as its agent may have it (n17)."""
    if len(raw) > tasks.DETAIL:
        return
    raw = session.broker.held_values.json(raw)
    try:
        params = tasks.state(raw, held.id)
        row = row_of(session, held, "tasks/get")
    except Failure:
        return  # the agent asks from time to time anyway
    if isinstance(row.decision, Deny):
        return  # it was allowed when the agent made the task
    session.notice("notifications/tasks/status", params)
    heard(held, raw)


# -------------------------------------------------------------------- followed


async def get(session: Session, request: Request) -> bytes:
    held = find(session, request, read_params(request.params, TaskParams).task_id)
    text = (await ask(session, request, held, "tasks/get")).text
    heard(held, text)
    if not held.stateless:
        return tasks.state(text, held.id)
    return dialect.complete(await presented(session, request, held, text))


async def result(session: Session, request: Request) -> bytes:
    """The result of the call that made the task, once there is one (5.15)."""
    held = find(session, request, read_params(request.params, TaskParams).task_id)
    found = await ask(session, request, held, "tasks/result", send=calls.awaiting(held))
    held.end()
    return dress(tasks.result(found, held.id), stateless=False)


async def cancel(session: Session, request: Request) -> bytes:
    held = find(session, request, read_params(request.params, TaskParams).task_id)
    text = (await ask(session, request, held, "tasks/cancel")).text
    if held.stateless:
        return dialect.complete(b"{}")
    heard(held, text)
    return tasks.state(text, held.id)


async def update(session: Session, request: Request) -> bytes:
    """Answers of the agent to what the server wants to know for the task, each once (5.16)."""
    params = read_params(request.params, UpdateParams)
    held = find(session, request, params.task_id)
    answers: dict[str, bytes] = {}
    for key, response in read_responses(bytes(params.input_responses)).items():
        shown: Shown | None = held.asked.get(key)
        if shown is None or key in held.answered:
            continue  # it is answered already, or nothing that was asked
        try:
            answers[key] = session.asks.settle(request, shown, response).result
        except BadAnswer as e:
            raise Failure("invalid_params", f"cannot use inputResponses: {e}") from None
    if answers:
        await _answer(session, request, held, answers)
    return dialect.complete(b"{}")


async def list_all(session: Session, request: Request) -> bytes:
    """The tasks of this agent that it can ask for here, page by page (5.15)."""
    check_known(session, request)
    cursor = read_params(request.params, ListParams).cursor
    owner = session.caller.owner
    bound = ("tasks", session.id)
    after = _BEGINNING if cursor is None else states.unseal(session.broker.secret, cursor, *bound)
    own = [held for held in session.broker.tasks.of(owner) if not held.stateless and _is_there(session, held)]
    if after is None or (after and all(held.id != after for held in own)):
        raise Failure("invalid_params", "unknown or outdated cursor", hint="list from the start again")
    start = next((number + 1 for number, held in enumerate(own) if held.id == after), 0)
    page = own[start : start + PAGE]
    await _refresh(session, request, page)
    members = b'"tasks":[' + b",".join(tasks.bare(held.text, held.id) for held in page) + b"]"
    if len(own) > start + PAGE:
        members += b',"nextCursor":' + quoted(states.seal(session.broker.secret, page[-1].id, *bound))
    return dialect.own_result(members, False)


async def _refresh(session: Session, request: Request, page: list[Held]) -> None:
    """Ask the servers how their tasks stand; where one does not say, what it said last counts."""
    free = trio.CapacityLimiter(AT_ONCE)

    async def refresh(held: Held) -> None:
        async with free:
            try:
                heard(held, (await ask(session, beside(request), held, "tasks/get")).text)
            except Failure:
                return

    with request.ticket.stoppable(), trio.move_on_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for held in page:
                if not held.over:
                    nursery.start_soon(refresh, held)


# ------------------------------------------------------------------------ parts


def check_known(session: Session, request: Request) -> None:
    """Raises Failure: `unknown_method` where the agent was told of no tasks, `missing_capability` where it
    has not said that it knows them."""
    if request.meta is not None:
        if TASKS not in extensions.read(request.meta.capabilities):
            raise Failure(
                "missing_capability",
                f"declare the extension {TASKS} with every request about tasks",
                requiredCapabilities={"extensions": {TASKS: {}}},
            )
        return
    revision = session.revision
    view = listing.view_now(session.broker, session.key)
    if revision is None or not revision.tasks or "tasks" not in view.features:
        raise Failure("unknown_method", f"method not found: {request.message.method[:100]}")


def find(session: Session, request: Request, ident: str) -> Held:
    """The task of this agent. Raises Failure `invalid_params` for any other id, which is recorded (n12)."""
    check_known(session, request)
    held = session.broker.tasks.find(ident, session.caller.owner, stateless=request.stateless)
    if held is None or not _is_there(session, held):
        failure = listing.unknown_task()
        calls.record_unfound(session.broker, session.caller, request.message.method, "", failure.kind)
        raise failure
    return held


def _is_there(session: Session, held: Held) -> bool:
    try:
        row_of(session, held, "tasks/get")
    except Failure:
        return False
    return True


def beside(request: Request) -> Request:
    """The same request once more, for what goes on while it waits: a ticket is for one wait at a time."""
    return msgspec.structs.replace(request, ticket=Ticket())


def row_of(session: Session, held: Held, method: str) -> Row:
    """Raises Failure `invalid_params` where the task is no more, or not for this agent any more."""
    if held.gone:
        raise listing.unknown_task()
    return listing.find_following(session.broker, session.key, held.upstream, held.tool, held.name, method)


async def ask(
    session: Session,
    request: Request,
    held: Held,
    method: str,
    more: bytes = b"",
    send: Step | None = None,
) -> Bounded:
    """One request about the task to its server. `more`: further members of its params, after a comma."""
    row = request.row = row_of(session, held, method)
    row.upstream.users.add(session.id)
    members = b'"taskId":' + quoted(held.own) + more
    meta = bytes(read_params(request.params, MetaParams).meta)
    step = () if send is None else (send,)
    try:
        return await calls.call(
            session.broker, session.caller, row, members, meta, request.ticket, request, *step
        )
    except ServerError as e:
        raise nameless(e, held.own, held.id) from None


def heard(held: Held, text: bytes) -> Task | None:
    """The server has said how a task stands."""
    task = tasks.read_task(text)
    if task is not None:
        held.heard(task, text)
    return task


# ------------------------------------------------------- what a server wants to know


async def presented(session: Session, request: Request, held: Held, text: bytes) -> bytes:
    """A task's detail as its agent gets it, with the questions that are for it (n03, 5.16).

    Raises Failure `bad_answer` where the server wants to know what this agent cannot be asked.
    """
    given, shown = sort(session, request, held, tasks.questions(text))
    if given:
        await _answer(session, request, held, given)
    more = {"inputRequests": tasks.asked(shown) if shown else b""} if b"inputRequests" in text else {}
    return tasks.state(text, held.id, more)


def sort(
    session: Session, request: Request, held: Held, wanted: dict[str, Question]
) -> tuple[dict[str, bytes], dict[str, Question]]:
    """The answers that need nobody, and the questions that are for the agent, by the task's keys."""
    given: dict[str, bytes] = {}
    shown: dict[str, Question] = {}
    relay = held.upstream.relay
    can = relay.mask(request.abilities)
    for key, question in wanted.items():
        if key in held.answered:
            continue
        before: Shown | None = held.asked.get(key)
        if before is not None:
            shown[key] = before.question
        elif question.method not in QUESTIONS or len(held.asked) >= QUESTIONS_MOST:
            raise _unanswerable(held, f"it asks for {question.method[:60]!r}, or too much")
        elif question.method == ROOTS and relay.fixed:
            given[key] = relay.fixed
        else:
            try:
                each = session.asks.show(request, held.upstream.name, question, can, relay.spend)
            except Refused as e:
                if question.method != ELICIT or e.code == asks.UNDECLARED:
                    raise _unanswerable(held, e.message) from None
                given[key] = asks.DECLINED
                continue
            held.asked[key] = each
            shown[key] = each.question
    return given, shown


async def _answer(session: Session, request: Request, held: Held, answers: dict[str, bytes]) -> None:
    # From here on: the agent may send the same once more before the server has heard of it.
    held.answered |= answers.keys()
    try:
        await ask(session, request, held, "tasks/update", b"," + round_members(answers, None))
    except BaseException:
        held.answered -= answers.keys()
        raise


def _unanswerable(held: Held, words: str) -> Failure:
    name = held.upstream.name
    return Failure(
        "bad_answer", f'server "{name}" cannot get the answers that it needs: {words}', server=name
    )
