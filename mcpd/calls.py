"""The one path of every request that reaches a server (a01, DESIGN 6).

`call` only sequences: find, check, decide, send, bound, record. What a tool, a wrapper and a native
method differ in is said by their rows. The steps live in their own modules; a feature extends a step
or adds a line here, it never goes round the path.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
import trio

from mcpd import listing
from mcpd.broker import Broker
from mcpd.catalog import content, tasks
from mcpd.errors import Failure
from mcpd.journal import Entry
from mcpd.listing import DEFAULT_AGENT
from mcpd.policy.asks import UNDECLARED
from mcpd.policy.decide import Deny
from mcpd.protocol import dialect, extensions
from mcpd.protocol.abilities import NONE, Ability
from mcpd.protocol.extensions import TASKS
from mcpd.protocol.input import ROUNDS as ROUNDS_OF
from mcpd.protocol.input import Wanted, read_wanted, wants_input
from mcpd.protocol.jsonrpc import quoted
from mcpd.rows import Following, Native, Row
from mcpd.tasks import Held
from mcpd.transport.pending import Ask, Asker
from mcpd.upstream.drive import Await, Drive, Make
from mcpd.upstream.drive import read as read_task
from mcpd.upstream.request import Superseded, Watch, request
from mcpd.upstream.ticket import Ticket, Withdrawn
from mcpd.upstream.upstream import Upstream
from mcpd.upstream.wishes import Tell


class Caller(msgspec.Struct, frozen=True):
    """Who a request is recorded under."""

    session: str
    agent: str
    pid: int
    exe: str
    proven: bool = False
    """It has shown the agent's token, so that all who have are one, also of the default agent."""


class Silent(msgspec.Struct, frozen=True):
    """An asker that can be told and asked nothing, and counts as somebody all the same: what a server
    says while it serves this one must not be taken for what it says to another (n03)."""

    session: str
    level: int | None = None
    abilities: Ability = NONE
    extensions: bytes = b""
    makes_tasks: bool = False

    @property
    def party(self) -> str:
        return self.session

    def progressed(self, raw: bytes) -> None:
        pass

    def logged(self, raw: bytes) -> None:
        pass

    def asked(self, ask: Ask) -> None:
        ask.refuse(UNDECLARED, "the client serves no requests")


#: The step that asks the server, see `upstream.request`.
Send = Callable[
    [
        Upstream,
        Ticket,
        str,
        bytes,
        bytes,
        float,
        float,
        Asker | None,
        Callable[[bool], bool],
        Callable[[], bool],
    ],
    Awaitable[bytes],
]

#: Rounds of one request, and the seconds before a round without questions is repeated (5.13).
ROUNDS = 10
PAUSE = 0.05
PAUSE_MAX = 0.25

#: The members of the next round's params, without braces, from what a server wants to know.
Gather = Callable[[Upstream, Wanted], Awaitable[bytes]]


class InputRequired(Failure):
    """The caller is asked by the answer to its request; what was not known yet has not been done."""

    def __init__(self, result: bytes) -> None:
        super().__init__("input_required", "the server needs answers first")
        self.result = result


class Rounds(msgspec.Struct, frozen=True):
    """`request`, as the step that asks the server, as often as the server wants to know more first (5.13)."""

    gather: Gather
    first: bytes = b""
    """Members of the first round's params, where the caller has answered before."""

    async def __call__(
        self,
        upstream: Upstream,
        ticket: Ticket,
        method: str,
        members: bytes,
        kept_meta: bytes,
        idle: float,
        total: float,
        asker: Asker | None,
        may_replay: Callable[[bool], bool],
        holds: Callable[[], bool],
    ) -> bytes:
        """Raises what `request` does, and what `gather` does."""
        more = self.first
        pause = PAUSE
        for _ in range(ROUNDS):
            asked = b",".join(part for part in (members, more) if part)
            raw = await request(
                upstream, ticket, method, asked, kept_meta, idle, total, asker, may_replay, holds
            )
            if method not in ROUNDS_OF or not wants_input(raw):
                return raw
            wanted = read_wanted(raw)
            with ticket.stoppable():
                if not wanted.input_requests:
                    await trio.sleep(pause)
                    pause = min(2 * pause, PAUSE_MAX)
                more = await self.gather(upstream, wanted)
            if not holds():
                raise Superseded
        raise Failure(
            "bad_answer",
            f'server "{upstream.name}" wanted more input {ROUNDS} times',
            server=upstream.name,
        )


#: How often a call is decided when what it was decided on changes while it waits for its server.
DECISIONS = 3


async def call(
    broker: Broker,
    caller: Caller,
    row: Row,
    payload: bytes,
    meta: bytes,
    ticket: Ticket,
    asker: Asker | None,
    send: Send = request,
) -> content.Bounded:
    """One request to one server for one caller: of a tool, or whatever else the row stands for.

    `payload`, what the row takes, and `meta` are the caller's JSON text, empty when absent. Raises
    ServerError for the server's own JSON-RPC error, Failure with the kinds of D13, Withdrawn when the
    caller gives up.
    """
    began = time.perf_counter()
    outcome = "cancelled"
    verdict = ""
    size = 0
    try:
        payload = row.checked(payload)
        if row.local:
            row = await _renewed(broker, row, ticket)
        for _ in range(DECISIONS):
            decision = row.decision
            verdict = "allow"
            if isinstance(decision, Deny):
                verdict = "deny"
                held = row.upstream.held
                hint = f"{held}: mcpctl reload" if held else decision.hint
                raise Failure("denied", decision.message, hint=hint, server=row.upstream.name)
            if row.local:
                raw = b""
                break
            try:
                raw = await _step(row, send, asker)(
                    row.upstream,
                    ticket,
                    row.method,
                    row.members(payload),
                    dialect.forwarded_meta(meta),
                    row.ruling.timeout,
                    broker.config.settings.timeout_max,
                    asker,
                    row.may_replay,
                    partial(_holds, broker, row),
                )
                break
            except Superseded:
                row = await _find_again(broker, row, ticket)
        else:
            raise Failure(
                "busy", f'tool "{row.name}" keeps changing', hint="try again", server=row.upstream.name
            )
        made = _task_made(broker, caller, row, raw, asker, send)
        bounded = made or row.bound(raw, payload, broker.config.settings.max_result)
        size = len(bounded.text)
        outcome = "tool_error" if bounded.is_error else "ok"
        return bounded
    except Failure as e:
        outcome = e.kind
        raise
    except Exception:
        outcome = "internal"
        raise
    finally:
        broker.journal.record(
            Entry(
                session=caller.session,
                agent=caller.agent,
                pid=caller.pid,
                exe=caller.exe,
                server=row.upstream.name,
                tool=row.tool.name,
                method=row.method,
                decision=verdict,
                because=row.because if verdict else "",
                outcome=outcome,
                duration=time.perf_counter() - began,
                request_bytes=len(payload),
                result_bytes=size,
            )
        )


async def watch(
    broker: Broker,
    caller: Caller,
    row: Row,
    uri: str,
    meta: bytes,
    ticket: Ticket,
    asker: Asker,
    watcher: str,
    tell: Tell,
) -> None:
    """Ask for news of a resource of the row's server, under its own URI, on behalf of `watcher`.

    Raises what `call` does; then nothing is watched.
    """
    members = b'"uri":' + quoted(uri)
    await call(broker, caller, row, members, meta, ticket, asker, Watch(watcher, uri, tell))


def owner_of(caller: Caller) -> str:
    """Whose a task is: the agent's, or one session's of the agent that every program may be."""
    anybody = caller.agent in ("", DEFAULT_AGENT) and not caller.proven
    return caller.session if anybody else f"agent {caller.agent}"


class Making(Make):
    """The step that makes a task for an agent with a handshake, which follows it itself (5.15)."""

    def __init__(self, wish: bytes, told: Callable[[Held, bytes], None]) -> None:
        """`wish`: the call's `task`, JSON text. `told` hears of notices about the task's state."""
        super().__init__(request, wish)
        self.told = told


def awaiting(held: Held) -> Send:
    """The step for the result of a task, once there is one."""
    return Await(request, held.own, held.connection)


def _step(row: Row, send: Send, asker: Asker | None) -> Send:
    """The step that asks the server: where its tool insists on a task that the caller does not know, mcpd
    follows that (8.2)."""
    if row.tool.task != "required" or row.method != "tools/call" or isinstance(send, Make):
        return send
    if asker is not None and asker.makes_tasks:
        return send
    catalog = row.upstream.catalog
    return Drive(request) if catalog is not None and "tasks" in catalog.features else send


def _task_made(
    broker: Broker, caller: Caller, row: Row, raw: bytes, asker: Asker | None, send: Send
) -> content.Bounded | None:
    """What a caller gets that follows the task which its call has made; None for any other result.

    Raises Failure `bad_answer` for what is no task although it says so.
    """
    if isinstance(send, Making):
        text, end = tasks.made_handshake(raw), send.thread.end
    elif asker is not None and asker.extensions and row.method == "tools/call" and tasks.made_stateless(raw):
        catalog = row.upstream.catalog
        both = extensions.towards_server(asker.extensions, catalog.extensions if catalog is not None else {})
        text, end = raw if TASKS in both else b"", _nothing
    else:
        return None
    if not text:
        return None
    task = read_task(row.upstream, text)
    stateless = not isinstance(send, Making)
    names = (row.tool.name, row.name)
    owner = owner_of(caller)
    held = broker.tasks.keep(owner, row.upstream, names, task, text, end, stateless=stateless)
    try:
        made = tasks.made(raw, held.id, stateless=stateless)
    except Failure:
        broker.tasks.drop(held)
        raise
    if isinstance(send, Making):
        send.thread.followed.told = partial(send.told, held)
    return made


def _nothing() -> None:
    """No connection remembers the task."""


def record_unfound(broker: Broker, caller: Caller, method: str, name: str, failure: Failure) -> None:
    """A request for something that is not there, or not for this agent, is recorded as well (n12)."""
    broker.journal.record(
        Entry(
            session=caller.session,
            agent=caller.agent,
            pid=caller.pid,
            exe=caller.exe,
            tool=name[:200],
            method=method,
            outcome=failure.kind,
        )
    )


def _holds(broker: Broker, row: Row) -> bool:
    """Whether the row is still what was decided on, under the same rules (DESIGN 6)."""
    view = broker.views.current(row.key)
    return view is not None and view.holds(row)


async def _renewed(broker: Broker, row: Row, ticket: Ticket) -> Row:
    """The same row when what it is answered from is as new as a listing (a22, 5.18)."""
    with ticket.stoppable():
        await listing.renew(row.upstream, "prompts" if row.method == "prompts/list" else "resources")
    return row if _holds(broker, row) else await _find_again(broker, row, ticket)


async def _find_again(broker: Broker, row: Row, ticket: Ticket) -> Row:
    with ticket.stoppable():
        if isinstance(row, Following):
            tool = row.tool.name
            return listing.find_following(broker, row.key, row.upstream, tool, row.name, row.method)
        if isinstance(row, Native):
            return listing.find_native(broker, row.key, row.upstream.name, row.tool, row.method, row.name)
        return await listing.find_tool(broker, row.key, row.name)
    raise Withdrawn
