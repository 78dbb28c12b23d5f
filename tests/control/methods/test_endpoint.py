from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from mcpd.api.endpoint import PORT
from mcpd.consent import tokens
from mcpd.errors import Failure
from tests.conftest import Home
from tests.control.world import World, running, write_config


class Listener:
    """An endpoint that needs no network: any port can be had but 1."""

    def __init__(self) -> None:
        self.port = 0
        self.problem = ""
        self.sessions = 3
        self.ended: list[str] = []

    @property
    def urls(self) -> tuple[str, ...]:
        return (f"http://127.0.0.1:{self.port}/mcp",) if self.port else ()

    async def open(self, port: int) -> None:
        if port == 1:
            raise Failure("refused", "cannot listen")
        self.port = port or 4711

    async def close(self) -> None:
        self.port = 0

    def end_sessions(self, agent: str) -> None:
        self.ended.append(agent)


OFF: dict[str, Any] = {
    "enabled": False,
    "port": PORT,
    "urls": [],
    "problem": "",
    "sessions": 3,
    "tokens": [],
}


def listening(world: World) -> Listener:
    world.broker.endpoint = listener = Listener()
    return listener


async def test_it_is_off_until_it_is_enabled(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        listener = listening(world)
        operator = await world.operator()
        assert await operator.call("endpoint.status") == OFF
        url = f"http://127.0.0.1:{PORT}/mcp"
        on = {**OFF, "enabled": True, "urls": [url]}
        assert await operator.call("endpoint.enable") == on
        assert await operator.call("endpoint.enable") == on, "a second time changes nothing"
        assert (await operator.call("endpoint.enable", port=8080))["urls"] == ["http://127.0.0.1:8080/mcp"]
        assert await operator.call("endpoint.disable") == {**OFF, "port": 8080}
        assert (await operator.call("endpoint.enable"))["port"] == 8080, "the port is remembered"
        assert (await operator.call("endpoint.enable", port=0))["port"] == 4711
        assert world.broker.state.endpoint == (True, 0)
        refused = await operator.refusal("endpoint.enable", port=1)
        assert refused.kind == "refused"
        assert world.broker.state.endpoint == (True, 0)
        assert listener.port == 4711
        for port in (-1, 65536, "80"):
            assert (await operator.refusal("endpoint.enable", port=port)).kind == "invalid_params"


async def test_what_cannot_be_kept_is_not_done(
    home: Home, real_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpd.database.BUSY", 0.05)
    async with running(home) as world:
        listener = listening(world)
        operator = await world.operator()
        other = sqlite3.connect(home.state / "state.db", isolation_level=None)
        other.execute("begin immediate")
        assert (await operator.refusal("endpoint.enable")).kind == "not_writable"
        assert listener.port == 0
        assert (await operator.refusal("endpoint.token", agent="default")).kind == "not_writable"
        assert world.broker.state.tokens == {}
        other.execute("rollback")
        await operator.call("endpoint.enable")
        await operator.call("endpoint.token", agent="default")
        other.execute("begin immediate")
        assert (await operator.refusal("endpoint.disable")).kind == "not_writable"
        assert (await operator.refusal("endpoint.revoke", agent="default")).kind == "not_writable"
        assert listener.port == 0
        assert world.broker.state.tokens == {}, "what narrows counts all the same"
        other.close()


async def test_a_token_is_told_once(home: Home, real_clock: None) -> None:
    write_config(home, "[agents.coder]\n")
    async with running(home) as world:
        listener = listening(world)
        operator = await world.operator()
        made = await operator.call("endpoint.token", agent="coder")
        assert (made["agent"], made["replaced"], made["urls"]) == ("coder", False, [])
        assert world.broker.state.tokens["coder"].digest == tokens.digest(made["token"])
        again = await operator.refusal("endpoint.token", agent="coder")
        assert again.kind == "refused"
        assert "--rotate" in again.data["hint"]
        other = await operator.call("endpoint.token", agent="coder", rotate=True)
        assert other["replaced"] is True
        assert other["token"] != made["token"]
        assert world.broker.state.tokens["coder"].digest == tokens.digest(other["token"])
        assert listener.ended == ["coder", "coder"]
        assert (await operator.refusal("endpoint.token", agent="nobody")).kind == "no_such_agent"
        assert (await operator.call("endpoint.token", agent="default", rotate=True))["replaced"] is False
        listed = (await operator.call("endpoint.status"))["tokens"]
        assert [(token["agent"], token["usable"]) for token in listed] == [("coder", True), ("default", True)]
        assert made["token"] not in str(listed)


async def test_a_revoked_token_is_gone_also_of_an_agent_that_is(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        listener = listening(world)
        operator = await world.operator()
        world.broker.state.put_token("gone", b"x" * 32)
        [token] = (await operator.call("endpoint.status"))["tokens"]
        assert (token["agent"], token["usable"]) == ("gone", False)
        assert (await operator.call("endpoint.revoke", agent="gone"))["tokens"] == []
        assert listener.ended == ["gone"]
        assert (await operator.refusal("endpoint.revoke", agent="gone")).kind == "no_such_agent"


async def test_changes_are_recorded_with_the_agent_and_without_the_token(
    home: Home, real_clock: None
) -> None:
    async with running(home) as world:
        listening(world)
        await world.nursery.start(world.broker.journal.run)
        made = await (await world.operator()).call("endpoint.token", agent="default")
        [entry] = [entry for entry in (await world.broker.journal.query()).entries if entry.kind == "change"]
        assert (entry.method, entry.because, entry.outcome) == ("endpoint.token", 'agent "default"', "ok")
        assert made["token"] not in str(entry)


async def test_without_anybody_who_serves_http(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        operator = await world.operator()
        assert (await operator.call("endpoint.status"))["urls"] == []
        assert (await operator.refusal("endpoint.enable")).kind == "refused"
        assert (await operator.call("endpoint.disable"))["enabled"] is False
