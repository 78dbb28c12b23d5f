"""What a `subscriptions/listen` stream tells of tasks (5.14, 5.16)."""

from __future__ import annotations

from functools import partial

import msgspec
import trio

from mcpd import calls, scanning
from mcpd.agents.methods import tasks
from mcpd.agents.methods.request import Request
from mcpd.agents.session import Session
from mcpd.errors import Failure
from mcpd.policy.decide import Deny
from mcpd.protocol import dialect
from mcpd.tasks import Held
from mcpd.upstream.follow import Follow
from mcpd.upstream.upstream import Upstream

#: Seconds in which a task that changes again and again is told of once.
SPACING = 0.05


class Feed:
    """The news of some tasks for one stream. `run` is its task; `stop` ends it."""

    def __init__(self, session: Session, request: Request, ids: tuple[str, ...]) -> None:
        self.granted: list[str] = []
        """The tasks of which their servers tell."""
        self.acknowledged = trio.Event()
        """The agent knows, so that news may follow."""
        self._session = session
        self._request = request
        self._groups: dict[tuple[Upstream, str], dict[str, Held]] = {}
        """By instance and tool, by the server's own id."""
        for ident in dict.fromkeys(ids):
            try:
                held = tasks.find(session, request, ident)
            except Failure:
                continue
            self._groups.setdefault((held.upstream, held.tool), {})[held.own] = held
        self._waiting: dict[str, tuple[Held, bytes]] = {}
        """What is to be told, by mcpd's id; empty text where the server must be asked."""
        self._news = trio.Event()
        self._scope = trio.CancelScope()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Started when the servers have agreed, or have not in time."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                async with trio.open_nursery() as asking:
                    for group in self._groups.values():
                        asking.start_soon(self._follow, nursery, group)
                task_status.started()
                await self.acknowledged.wait()
                await self._tell_on()

    def stop(self) -> None:
        self._scope.cancel()

    async def _follow(self, nursery: trio.Nursery, group: dict[str, Held]) -> None:
        """Ask one server; decided as the call that made the tasks (a01)."""
        held = next(iter(group.values()))
        step = Follow(nursery, frozenset(group), partial(self._put, group), partial(self._put_all, group))
        members = b'"notifications":' + msgspec.json.encode({"taskIds": sorted(group)})
        session, request = self._session, tasks.beside(self._request)
        try:
            row = tasks.row_of(session, held, "subscriptions/listen")
            await calls.call(session.broker, session.caller, row, members, b"", request.ticket, request, step)
        except Failure:
            return
        self.granted += [group[own].id for own in group if own in step.honoured]

    def _put(self, group: dict[str, Held], own: str, raw: bytes) -> None:
        held = group[own]
        self._waiting[held.id] = (held, raw)
        self._news.set()

    def _put_all(self, group: dict[str, Held]) -> None:
        """Something may have been missed: nothing is replayed (5.14)."""
        for own in group:
            self._put(group, own, b"")

    async def _tell_on(self) -> None:
        while True:
            await self._news.wait()
            self._news = trio.Event()
            while self._waiting:
                held, raw = self._waiting.pop(next(iter(self._waiting)))
                try:
                    await self._tell(held, raw)
                except Failure:
                    continue  # the agent asks from time to time anyway
            await trio.sleep(SPACING)

    async def _tell(self, held: Held, raw: bytes) -> None:
        session, request = self._session, tasks.beside(self._request)
        row = tasks.row_of(session, held, "tasks/get")
        if isinstance(row.decision, Deny):
            return  # it was allowed when the agent asked
        if raw:
            raw, _ = await scanning.result(session.broker, session.caller, row, raw)
            text = row.bound(raw, b"", session.broker.config.settings.max_result).text
        else:
            text = (await tasks.ask(session, request, held, "tasks/get")).text
        tasks.heard(held, text)
        state = await tasks.presented(session, request, held, text)
        if session.behind:
            await session.drained()
        params = dialect.with_subscription(state, request.key)
        session.notice("notifications/tasks", params, request.on)
