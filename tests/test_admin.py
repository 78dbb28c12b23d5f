from __future__ import annotations

import sqlite3

import pytest
import trio
from msgspec.structs import replace

from mcpd import admin, applying, health
from mcpd.api.servers import AddServer
from mcpd.api.status import Status
from mcpd.errors import Failure
from tests import visitor
from tests.conftest import Home
from tests.control.world import World, running, tiny, write_config, write_server


def status(world: World, name: str) -> Status:
    found = admin.status_of(world.broker, name)
    assert found is not None
    return found


async def connected_pid(world: World, name: str) -> int:
    told = await admin.test_server(world.broker, name)
    assert told.ok, told.error
    return told.status.pid


async def test_reload_touches_only_what_changed_a03(home: Home, real_clock: None) -> None:
    write_server(home, "stays", **tiny())
    write_server(home, "changes", **tiny())
    async with running(home) as world:
        stays, changes = await connected_pid(world, "stays"), await connected_pid(world, "changes")
        world.write_server("changes", **tiny("--tools", "1"))
        await applying.reload(world.broker)
        assert await connected_pid(world, "stays") == stays
        assert await connected_pid(world, "changes") != changes


async def test_a_server_whose_file_breaks_goes_on_until_the_file_goes_a07(
    home: Home, real_clock: None
) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        pid = await connected_pid(world, "tiny")
        file = world.servers_dir / "tiny.toml"
        for broken in ("command = 3", "command = ["):
            file.write_text(broken)
            done = await applying.reload(world.broker)
            assert (done.kept, done.changed, done.unchanged) == (("tiny",), (), ("tiny",))
            assert str(file) in {problem.file for problem in done.problems}
            assert await connected_pid(world, "tiny") == pid
            assert "cannot be used" in admin.get_server(world.broker, "tiny").held
            await applying.watched(world.broker)
            assert await connected_pid(world, "tiny") == pid
        world.write_server("tiny", **tiny())
        done = await applying.reload(world.broker)
        assert (done.kept, done.problems) == ((), ())
        assert not admin.get_server(world.broker, "tiny").held
        file.unlink()
        assert (await applying.reload(world.broker)).removed == ("tiny",)


async def test_what_waits_is_in_the_status_whichever_file_it_is_in_a03(home: Home, real_clock: None) -> None:
    write_server(home, "old", **tiny())
    async with running(home) as world:
        world.write_server("old", **tiny("--tools", "1"))
        world.write_server("new", **tiny())
        file = write_config(home, "[agents.coder]\n")
        await applying.watched(world.broker)
        shown = health.daemon_status(world.broker).problems
        assert {(problem.file, problem.place, problem.message) for problem in shown} == {
            (str(world.servers_dir / "old.toml"), "servers.old", "args changed, waits for mcpctl reload"),
            (str(world.servers_dir / "new.toml"), "servers.new", "new, waits for mcpctl reload"),
            (str(file), "agents.coder", "a new agent, waits for mcpctl reload"),
        }
        await applying.reload(world.broker)
        assert health.daemon_status(world.broker).problems == ()


async def test_a_changed_policy_does_not_reconnect(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        pid = await connected_pid(world, "tiny")
        world.write_server("tiny", **tiny(default_policy={"approval": "deny"}))
        done = await applying.reload(world.broker)
        assert done.changed == ("tiny",)
        assert await connected_pid(world, "tiny") == pid
        assert admin.get_server(world.broker, "tiny").default_policy.approval == "deny"


async def test_the_watcher_applies_what_narrows_and_holds_the_rest_a03(home: Home, real_clock: None) -> None:
    for name in ("goes", "off", "changes", "stays"):
        write_server(home, name, **tiny())
    async with running(home) as world:
        changes, stays = await connected_pid(world, "changes"), await connected_pid(world, "stays")
        (world.servers_dir / "goes.toml").unlink()
        world.write_server("off", **tiny(), enabled=False)
        world.write_server("changes", **tiny("--tools", "1"))
        world.write_server("comes", **tiny())
        await applying.watched(world.broker)
        assert world.broker.fleet.names() == ["changes", "off", "stays", "comes"]
        assert status(world, "off").state == "disabled"
        # A changed one goes on as it was, a new one does not start.
        assert await connected_pid(world, "changes") == changes
        assert admin.get_server(world.broker, "changes").held
        assert admin.get_server(world.broker, "changes").step == "mcpctl reload"
        assert status(world, "comes").state == "held"
        assert admin.get_server(world.broker, "comes").held
        told = await admin.test_server(world.broker, "comes")
        assert (told.ok, told.hint) == (False, "mcpctl reload")

        done = await applying.reload(world.broker)
        assert (done.added, done.changed) == (("comes",), ("changes",))
        assert not admin.get_server(world.broker, "changes").held
        assert await connected_pid(world, "changes") != changes
        assert await connected_pid(world, "comes")
        assert await connected_pid(world, "stays") == stays


async def test_what_is_held_stays_held_through_other_changes(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        world.write_server("comes", **tiny())
        await applying.watched(world.broker)
        await admin.disable(world.broker, "tiny")
        await admin.add_server(world.broker, AddServer(name="added", command="/no/such/command"))
        await admin.disable(world.broker, "comes")
        await admin.remove_server(world.broker, "added")
        await applying.watched(world.broker)
        with pytest.raises(Failure, match="waits for mcpctl reload"):
            await admin.enable(world.broker, "comes")
        with pytest.raises(Failure, match="disabled"):
            admin.reconnect(world.broker, "comes")
        assert status(world, "comes").state in ("held", "disabled")
        assert world.broker.fleet.names() == ["tiny", "comes"]


async def test_reload_shows_what_it_applies_and_it_is_recorded_a03_n12(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        client = await world.operator()
        world.write_server("tiny", **tiny("--tools", "1", env={"K": "hush"}))
        write_config(home, "[agents.coder]\nallowed_tools = []\n")
        done = await client.call("daemon.reload")
        assert [change["place"] for change in done["applied"]] == ["servers.tiny", "agents.coder"]
        assert done["applied"][0]["what"].startswith("args, env changed: [")
        assert "hush" not in str(done)
        (world.servers_dir / "tiny.toml").unlink()
        await applying.watched(world.broker)
        await client.refusal("servers.disable", server="tiny")
        await client.call("servers.list")
        async with trio.open_nursery() as nursery:
            await nursery.start(world.broker.journal.run)
            entries = (await world.broker.journal.query()).entries
            nursery.cancel_scope.cancel()
    told = [(e.kind, e.method, e.server, e.outcome, e.because.partition(" ")[0]) for e in reversed(entries)]
    assert told == [
        ("change", "reload", "", "", "servers.tiny:"),
        ("change", "reload", "", "", "agents.coder:"),
        ("change", "daemon.reload", "", "ok", ""),
        ("change", "watch", "", "", "servers.tiny:"),
        ("change", "servers.disable", "tiny", "no_such_server", ""),
    ]
    assert entries[0].pid == visitor.pid("person")


async def test_a_full_disk_keeps_no_server_running(home: Home, real_clock: None) -> None:
    for name in ("off", "gone"):
        write_server(home, name, **tiny())
    async with running(home) as world:
        await connected_pid(world, "off")
        await admin.enable(world.broker, "gone")
        with sqlite3.connect(home.state / "state.db") as full:
            for what in ("insert", "delete"):
                full.execute(
                    f"create trigger no_{what} before {what} on servers begin select raise(abort, ''); end"
                )
        full.close()
        with pytest.raises(Failure) as caught:
            await admin.disable(world.broker, "off")
        assert caught.value.kind == "not_writable"
        assert status(world, "off").state == "disabled"
        await admin.remove_server(world.broker, "gone")
        assert world.broker.fleet.names() == ["off"]


async def test_a_moved_servers_folder_waits_for_reload_as_a_whole_a03(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        pid = await connected_pid(world, "tiny")
        file = write_config(home, "servers_dir = 'elsewhere'")
        await applying.watched(world.broker)
        [problem] = health.daemon_status(world.broker).problems
        assert (problem.file, problem.place) == (str(file), "servers_dir")
        assert await connected_pid(world, "tiny") == pid
        await admin.add_server(world.broker, AddServer(name="added", command="/no/such/command"))
        assert (world.servers_dir / "added.toml").exists()
        assert (await applying.reload(world.broker)).removed == ("added", "tiny")
        assert health.daemon_status(world.broker).servers_dir == str(world.config / "elsewhere")


async def test_add_accepts_what_was_asked_for_and_nothing_else_a03(home: Home, real_clock: None) -> None:
    """Whoever may write the folder can exchange the file between its writing and its reading back."""
    async with running(home) as world:
        file = world.write_server("tiny", command="/bin/true", args=["more"])
        asked = AddServer(name="tiny", command="/bin/true", args=("more",))
        assert (await admin._read_back(world.broker, asked, file)).args == ("more",)
        with pytest.raises(Failure, match="does not read back as written"):
            await admin._read_back(world.broker, replace(asked, args=()), file)


async def test_the_watcher_keeps_everything_when_the_config_is_broken(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        pid = await connected_pid(world, "tiny")
        file = write_config(home, "= broken")
        await applying.watched(world.broker)
        assert await connected_pid(world, "tiny") == pid
        assert health.daemon_status(world.broker).problems[0].file == str(file)


async def test_changes_never_interleave(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        broker = world.broker

        async def add(number: int) -> None:
            await admin.add_server(broker, AddServer(name=f"s{number}", command="/no/such/command"))
            await admin.disable(broker, f"s{number}")

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(add, number)
                nursery.start_soon(applying.watched, broker)
                nursery.start_soon(applying.reload, broker)
        assert sorted(broker.fleet.names()) == [f"s{number}" for number in range(8)]
        assert broker.state.switched_off() == {f"s{number}" for number in range(8)}
        assert not broker.held


async def test_a_cancelled_add_is_done_or_not_begun(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        wanted = AddServer(name="tiny", command="/no/such/command")
        with trio.move_on_after(0):
            await admin.add_server(world.broker, wanted)
        file = world.servers_dir / "tiny.toml"
        assert file.exists() == ("tiny" in world.broker.fleet.names())
