"""One control connection, as the methods see it: whoever speaks there is the operator."""

from __future__ import annotations

import os
from typing import Literal

import msgspec
import trio

from mcpd import processes
from mcpd.api import Params
from mcpd.broker import Broker
from mcpd.caller import Caller
from mcpd.control.authority import judge
from mcpd.errors import Failure
from mcpd.journal import About, Entry
from mcpd.policy.asks import UNDECLARED
from mcpd.protocol.abilities import NONE, Ability
from mcpd.transport.lines import LineWriter
from mcpd.transport.pending import Ask

Proof = Literal["", "second_factor", "unverified"]

#: Bytes that may wait for a slow reader before its next request or event has to wait too.
ROOM = 1024 * 1024


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


class Operator:
    """What a method may use beside its params. Lives as long as its connection."""

    def __init__(self, broker: Broker, caller: Caller, writer: LineWriter, nursery: trio.Nursery) -> None:
        self.broker = broker
        self.caller = caller
        """Under whom its calls are recorded; it is no agent."""
        self.writer = writer
        self.nursery = nursery
        """Ends with the connection; for what goes on after an answer."""
        self.subscribed = False
        self.proven = False
        """The second factor was shown on this connection."""
        self.proof: Proof = ""
        """How far the last request that widens was told from an agent's (n06)."""
        self._origin = processes.chain(caller.pid)

    @property
    def asker(self) -> Silent:
        """Who its requests are made for."""
        return Silent(self.caller.session)

    def authorise(self, method: str) -> None:
        """Raises Failure for what may not widen anything: `refused` for an agent's process, `factor_needed`
        for one that cannot be told from it, where a second factor is set (n06)."""
        self.proof = ""
        hosts, pid = self.broker.hosts, self.caller.pid
        verdict = judge(pid, self._origin, processes.chain(pid), hosts.present, hosts.past, os.getuid())
        if verdict.refused:
            raise Failure(
                "refused",
                f'cannot do "{method}" for an agent: {verdict.refused}',
                hint="do it in a terminal that no agent has started",
            )
        if not verdict.unverified:
            return
        if self.proven:
            self.proof = "second_factor"
        elif self.broker.factor.is_set:
            raise Failure(
                "factor_needed",
                f'cannot do "{method}" without the passphrase: {verdict.unverified}',
                hint="mcpctl asks for it at a terminal",
            )
        else:
            self.proof = "unverified"

    def record(self, method: str, params: Params, outcome: str, proof: Proof = "") -> None:
        """Who changed something, for the journal (n12)."""
        caller = Caller(self.caller.session, "", self.caller.pid, self.caller.exe)
        server = getattr(params, "server", "") or getattr(params, "name", "")
        meant = [(word, str(getattr(params, word, ""))) for word in ("agent", "session", "id")]
        self.broker.journal.record(
            Entry(
                kind="change",
                caller=caller,
                about=About(server=server, method=method),
                because=", ".join(f'{word} "{value[:60]}"' for word, value in meant if value),
                outcome=outcome,
                proof=proof,
            )
        )

    async def room(self) -> None:
        """Wait while more than `ROOM` bytes wait for this reader; at once when it is gone."""
        if self.writer.queued > ROOM:
            await self.writer.drained()
