"""Tasks of servers with a handshake: made for a call, and followed to their end (5.15, 8.2).

A tool may insist on tasks that its caller does not know: then mcpd makes one, looks at it from time to
time and gives the caller its result. Progress and questions go to the caller all the while.
"""

from __future__ import annotations

import contextlib
from math import inf

import msgspec
import trio

from mcpd.catalog import tasks
from mcpd.catalog.tasks import TERMINAL, Task
from mcpd.errors import Failure, ServerError
from mcpd.protocol.jsonrpc import quoted
from mcpd.transport.base import ConnectionLost
from mcpd.transport.pending import Asker, Slot
from mcpd.upstream.connection import Connection, Followed
from mcpd.upstream.step import Sending, Step
from mcpd.upstream.upstream import Upstream

#: Seconds that the server has to hear that a task is no longer wanted.
CANCELLING = 2.0


class Thread:
    """One task's life at one connection, from the request that makes it on."""

    def __init__(self, total: float, asker: Asker | None) -> None:
        """`total`: seconds until nobody waits any more; 0 for no limit (D9)."""
        self._total = total
        self._asker = asker
        self._connection: Connection | None = None
        self._key = b""
        self.followed = Followed(Slot(0.0, total, asker))
        self.news = trio.Event()

    def begin(self, connection: Connection, key: bytes) -> None:
        """The request was sent; once more after a restart."""
        self.end()
        self._connection, self._key = connection, key
        slot = Slot(0.0, self._total, self._asker)
        slot.start(trio.current_time())
        self.followed = connection.follow(key, slot)
        self.followed.told = self._told

    def _told(self, raw: bytes) -> None:
        self.news.set()

    def end(self) -> None:
        """Nobody follows it any more."""
        if self._connection is not None:
            self._connection.unfollow(self._key)
            self._connection = None

    @property
    def lost(self) -> bool:
        """The connection on which it was made is gone."""
        return self.followed.slot.settled

    @property
    def left(self) -> float:
        """Seconds until its time is over; it stands still while a person is asked."""
        return self.followed.slot.left(trio.current_time())


class Drive(msgspec.Struct, frozen=True):
    """The step that asks the server, for a tool that only runs as a task: called like `ask`."""

    ask: Step

    async def __call__(self, sending: Sending) -> bytes:
        """The result of the call. Raises what `ask` does; then the task is cancelled."""
        upstream = sending.upstream
        thread = Thread(sending.total, sending.asker)
        try:
            raw = await self.ask(_making(sending, b"{}", thread))
            made = tasks.made_handshake(raw)
            if not made:
                return raw  # it was done at once
            task = read(upstream, made)
            thread.followed.task = task.id
            connection = upstream.connection
            look = Look(self.ask, sending, task.id, connection)
            try:
                return await look.until_done(thread, task)
            except ServerError:
                raise  # so it is over, or was never there
            except BaseException:
                if upstream.remembers(connection):
                    await cancel(upstream, task.id)
                raise
        finally:
            thread.end()


class Make:
    """The step that asks the server for a task that the caller follows itself; called like `ask`."""

    def __init__(self, ask: Step, wish: bytes) -> None:
        """`wish`: the call's `task`, JSON text."""
        self._ask = ask
        self._wish = wish
        self.thread = Thread(0.0, None)
        """Goes on when a task was made; then whoever keeps that has to end it."""

    async def __call__(self, sending: Sending) -> bytes:
        self.thread = thread = Thread(0.0, sending.asker)
        try:
            raw = await self._ask(_making(sending, self._wish, thread))
            task = tasks.read_task(tasks.made_handshake(raw))
        except BaseException:
            thread.end()
            raise
        if task is None:
            thread.end()
        else:
            thread.followed.task = task.id
            thread.followed.waits = False
        return raw


class Await(msgspec.Struct, frozen=True):
    """The step that asks for a task's result once there is one, for `tasks/result`; called like `ask`.

    While the task is under way the server is asked for its state and not for its result, which would
    come in the end: only so does a server that has died differ from one that works.
    """

    ask: Step
    task: str
    """The server's own id."""
    connection: Connection | None
    """That on which it was made."""

    async def __call__(self, sending: Sending) -> bytes:
        thread = Thread(sending.total, sending.asker)
        thread.followed.slot.start(trio.current_time())
        look = Look(self.ask, sending, self.task, self.connection)
        return await look.until_done(thread, await look.state(thread))


class Look(msgspec.Struct, frozen=True):
    """Requests about one task."""

    ask: Step
    sending: Sending
    """What they are asked for."""
    task: str
    """The server's own id."""
    connection: Connection | None
    """That on which it was made."""

    async def until_done(self, thread: Thread, task: Task) -> bytes:
        """The result that the call would have had. Raises ServerError for the error that it would, and what
        `ask` does."""
        while task.status not in TERMINAL and task.status != "input_required":
            thread.news = trio.Event()
            with self.sending.ticket.stoppable(), trio.move_on_after(min(task.poll, max(thread.left, 0.0))):
                await thread.news.wait()
            task = await self.state(thread)
        # What is asked for a task comes while its result is asked for; then that is waited for (5.15).
        idle = 0.0 if task.status == "input_required" and thread.left < inf else self.sending.idle
        return tasks.unrelated(await self._ask(thread, "tasks/result", idle))

    async def state(self, thread: Thread) -> Task:
        return read(self.sending.upstream, await self._ask(thread, "tasks/get", self.sending.idle))

    async def _ask(self, thread: Thread, method: str, idle: float) -> bytes:
        upstream = self.sending.upstream
        if not upstream.remembers(self.connection):
            # Its next process may give the id to another caller's task (n03).
            raise self._unknown()
        left = thread.left
        if left <= 0:
            raise Failure(
                "timed_out",
                f'server "{upstream.name}" did not finish in time',
                hint="a longer `timeout_max` can be set under [defaults] in config.toml",
                server=upstream.name,
            )
        try:
            about = msgspec.structs.replace(
                self.sending,
                method=method,
                members=b'"taskId":' + quoted(self.task),
                kept_meta=b"",
                idle=idle,
                total=0.0 if left == inf else left,
                may_replay=self._may_replay,
                holds=self._still,
            )
            return await self.ask(about)
        except ServerError as e:
            if thread.lost:
                raise self._unknown() from None
            raise nameless(e, self.task, "[task]") from None

    def _may_replay(self, reached: bool) -> bool:
        """What only asks may be asked again, where somebody knows the answer."""
        return not self.sending.upstream.forgets

    def _still(self) -> bool:
        # A new decision cannot take back what runs; and what runs is not begun again.
        if not self.sending.holds():
            raise self._unknown()
        return True

    def _unknown(self) -> Failure:
        name = self.sending.upstream.name
        return Failure(
            "outcome_unknown",
            f'server "{name}" was started anew while it worked on a task, which may or may not'
            " have taken effect",
            hint="check before repeating it",
            server=name,
        )


def _making(sending: Sending, wish: bytes, thread: Thread) -> Sending:
    """The same request, to be served as a task."""
    members = sending.members + b',"task":' + wish
    return msgspec.structs.replace(sending, members=members, sent=thread.begin)


def read(upstream: Upstream, text: bytes) -> Task:
    """Raises Failure `bad_answer`."""
    task = tasks.read_task(text)
    if task is None:
        raise Failure(
            "bad_answer", f'what server "{upstream.name}" says of a task is none', server=upstream.name
        )
    return task


def nameless(error: ServerError, own: str, shown: str) -> ServerError:
    """A server's error about a task without its own id of it, unless that is so short that it may be
    anything (n03)."""
    if len(own) < 6:
        return error
    raw = error.raw.replace(quoted(own)[1:-1], quoted(shown)[1:-1])
    return ServerError(raw, error.server_code, error.message.replace(own, shown))


async def cancel(upstream: Upstream, task: str) -> None:
    """Nobody waits for the task any more, and its server hears of it (5.15)."""
    connection = upstream.connection
    said = connection.settled.capabilities.get("tasks") if connection is not None else None
    if connection is None or not isinstance(said, dict) or said.get("cancel") in (None, False):
        return
    with trio.move_on_after(CANCELLING, shield=True), contextlib.suppress(Failure, ConnectionLost):
        await connection.ask("tasks/cancel", b'"taskId":' + quoted(task), timeout=CANCELLING)
