"""`passphrase.*`, and what asks for it (n06). Operators here are strangers: children of init."""

from __future__ import annotations

import trio

from mcpd.api.journal import QueryJournal
from tests.conftest import Home
from tests.control.world import World, running

RIGHT = "correct horse battery"


async def recorded(world: World, method: str) -> list[tuple[str, str]]:
    """Outcome and proof of all that was asked by the method, oldest first."""
    async with trio.open_nursery() as nursery:
        await nursery.start(world.broker.journal.run)
        entries = (await world.broker.journal.query(QueryJournal(limit=100))).entries
        nursery.cancel_scope.cancel()
    return [(entry.outcome, entry.proof) for entry in reversed(entries) if entry.method == method]


async def test_without_one_a_stranger_is_let_in_and_on_record(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        person = await world.operator()
        assert await person.call("passphrase.status") == {"is_set": False, "set_at": 0}
        await person.call("daemon.reload")
        assert (await person.refusal("passphrase.prove", passphrase=RIGHT)).kind == "refused"
        assert await recorded(world, "daemon.reload") == [("ok", "unverified")]


async def test_with_one_it_is_wanted_once_a_connection(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        person = await world.operator()
        told = await person.call("passphrase.set", passphrase=RIGHT)
        assert (told["is_set"], told["set_at"] > 0) == (True, True)
        assert (await person.refusal("daemon.reload")).kind == "factor_needed"
        await person.call("servers.list")
        assert (await person.refusal("passphrase.prove", passphrase="wrong one")).kind == "refused"
        assert (await person.refusal("daemon.reload")).kind == "factor_needed"
        await person.call("passphrase.prove", passphrase=RIGHT)
        await person.call("daemon.reload")
        other = await world.operator()
        assert (await other.refusal("daemon.reload")).kind == "factor_needed"
        needed, shown = ("factor_needed", ""), ("ok", "second_factor")
        assert await recorded(world, "daemon.reload") == [needed, needed, shown, needed]
        assert RIGHT not in str((await world.broker.journal.query(QueryJournal(limit=100))).entries)


async def test_whoever_changes_it_has_to_know_it(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        person = await world.operator()
        await person.call("passphrase.set", passphrase=RIGHT)
        for method, params in (("passphrase.set", {"passphrase": "another one"}), ("passphrase.remove", {})):
            assert (await person.refusal(method, **params)).kind == "factor_needed"
        await person.call("passphrase.prove", passphrase=RIGHT)
        await person.call("passphrase.set", passphrase="another one")
        assert await person.call("passphrase.remove") == {"is_set": False, "set_at": 0}
        await (await world.operator()).call("daemon.reload")


async def test_one_that_is_too_short_is_refused_by_reason(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        person = await world.operator()
        refused = await person.refusal("passphrase.set", passphrase="short")
        assert (refused.kind, refused.message) == ("invalid_params", "a passphrase has 8 to 1024 characters")
