"""Files that change, and files that are broken, under a running daemon (a03, a07)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness import Daemon, Refused, attached, heard, lively, text_of, until


@pytest.fixture
def log(daemon: Daemon) -> Path:
    log = daemon.home.root / "lively.log"
    daemon.server("lively", lively(log))
    return log


async def test_a_broken_file_hides_nothing_else(daemon: Daemon, log: Path, real_clock: None) -> None:
    (daemon.folder / "servers.d" / "torn.toml").write_text("command = \n")
    daemon.server("both", {"command": "x", "url": "https://example.com/mcp"})
    daemon.server("unset", {"command": "x", "args": ["${NO_SUCH_VARIABLE_HERE}"]})
    daemon.start()
    states = {name: daemon.status(name) for name in ("torn", "both", "unset")}
    assert {status["state"] for status in states.values()} == {"failed"}
    reasons = {name: status["reason"] for name, status in states.items()}
    assert reasons == {"torn": "bad_definition", "both": "bad_definition", "unset": "unset_variable"}
    assert "NO_SUCH_VARIABLE_HERE" in states["unset"]["error"]
    async with attached(daemon) as agent:
        assert text_of(await agent.call("lively__echo", text="works")) == "works"


async def test_a_broken_main_file_closes_everything_and_says_so(
    daemon: Daemon, log: Path, real_clock: None
) -> None:
    """What it denies is not known, so nothing is used; the daemon starts and shows the line (a07, D1)."""
    (daemon.folder / "config.toml").write_text('[servers.inline\ncommand = "x"\n')
    daemon.start()
    problems = {Path(problem["file"]).name: problem for problem in daemon.ask("daemon.status")["problems"]}
    assert "1" in problems["config.toml"]["place"]
    status = daemon.status("lively")
    assert (status["state"], status["reason"]) == ("failed", "bad_definition")
    assert "config.toml" in status["error"]
    (daemon.folder / "config.toml").write_text("")
    daemon.ask("daemon.reload")
    async with attached(daemon) as agent:
        assert text_of(await agent.call("lively__echo", text="works")) == "works"


async def test_a_broken_config_keeps_the_running_set(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.write("config.toml", {"servers": {"inline": lively(daemon.home.root / "inline.log")}})
    daemon.start()
    good = (daemon.folder / "config.toml").read_bytes()
    async with attached(daemon) as agent:
        for name in ("lively", "inline"):
            assert text_of(await agent.call(f"{name}__echo", text=name)) == name
        (daemon.folder / "config.toml").write_text('{ "mcpServers": { oops')
        with pytest.raises(Refused) as refused:
            daemon.ask("daemon.reload")
        assert refused.value.kind == "config_invalid"
        assert "config.toml" in str(refused.value)
        for name in ("lively", "inline"):
            assert text_of(await agent.call(f"{name}__echo", text=name)) == name
        (daemon.folder / "config.toml").write_bytes(good)
        assert daemon.ask("daemon.reload")["unchanged"] == ["inline", "lively"]
        assert text_of(await agent.call("inline__echo", text="same")) == "same"
    assert len(heard(log, "start")) == 1


async def test_a_reload_touches_only_what_changed(daemon: Daemon, log: Path, real_clock: None) -> None:
    other = daemon.home.root / "other.log"
    daemon.server("other", lively(other))
    daemon.start()
    async with attached(daemon) as agent:
        for name in ("lively", "other"):
            await agent.call(f"{name}__echo", text=name)
        running = await agent.begin_call("lively__nap", seconds=2, text="undisturbed")
        daemon.server("other", lively(other, env={"NEW": "value"}))
        daemon.server("third", lively(daemon.home.root / "third.log"))
        done = daemon.ask("daemon.reload")
        assert (done["added"], done["changed"], done["unchanged"]) == (["third"], ["other"], ["lively"])
        assert "value" in text_of(await agent.call("other__env"))
        assert text_of(await agent.call("third__echo", text="new")) == "new"
        assert text_of(await agent.answer(running)) == "undisturbed"
    assert [len(heard(path, "start")) for path in (log, other)] == [1, 2]


async def test_a_file_alone_starts_nothing(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.start()
    async with attached(daemon) as agent:
        assert text_of(await agent.call("lively__echo", text="hi")) == "hi"
        pid = daemon.status("lively")["pid"]
        new = daemon.home.root / "new.log"
        daemon.server("new", lively(new, start="eager"))
        daemon.server("lively", lively(log, env={"CHANGED": "1"}))
        until(lambda: daemon.ask("servers.get", server="lively")["held"])
        assert daemon.status("lively")["state"] == "held" or daemon.status("lively")["pid"] == pid
        assert not heard(new)
        assert len(heard(log, "start")) == 1
        assert sorted(daemon.ask("daemon.reload")["changed"]) == ["lively"]
        assert not daemon.ask("servers.get", server="lively")["held"]
        assert "CHANGED" in text_of(await agent.call("lively__env"))
        until(lambda: heard(new, "start"))


@pytest.mark.parametrize("how", ["removed", "disabled"])
async def test_the_watcher_narrows_by_itself(daemon: Daemon, log: Path, real_clock: None, how: str) -> None:
    daemon.start()
    async with attached(daemon) as agent:
        assert "lively__echo" in await agent.tools()
        if how == "removed":
            (daemon.folder / "servers.d" / "lively.toml").unlink()
        else:
            daemon.server("lively", lively(log, enabled=False))
        await agent.wait_for(lambda: agent.noticed("notifications/tools/list_changed"))
        assert await agent.tools() == []
        until(lambda: heard(log, "eof"))


async def test_the_watcher_takes_a_stricter_policy_and_leaves_a_wider_one(
    daemon: Daemon, log: Path, real_clock: None
) -> None:
    daemon.start()
    async with attached(daemon) as agent:
        await agent.call("lively__echo", text="hi")
        shut = lively(log, default_policy={"risk": "low", "approval": "deny"})
        daemon.server("lively", shut)
        until(lambda: daemon.ask("tools.describe", server="lively", tool="echo")["approval"] == "deny")
        assert (await agent.call("lively__echo", text="hi"))["_meta"]["dev.mcpd/kind"] == "denied"
        daemon.server("lively", lively(log))
        until(lambda: daemon.ask("servers.get", server="lively")["held"])
        assert (await agent.call("lively__echo", text="hi"))["isError"] is True
        daemon.ask("daemon.reload")
        assert text_of(await agent.call("lively__echo", text="hi")) == "hi"
    assert len(heard(log, "start")) == 1, "a policy restarts nothing"


async def test_another_servers_dir(daemon: Daemon, log: Path, real_clock: None, tmp_path: Path) -> None:
    (daemon.folder / "servers.d" / "lively.toml").rename(tmp_path / "lively.toml")
    daemon.write("config.toml", {"schema": 1, "servers_dir": str(tmp_path)})
    daemon.start()
    assert daemon.ask("daemon.status")["servers_dir"] == str(tmp_path)
    async with attached(daemon) as agent:
        assert text_of(await agent.call("lively__echo", text="there")) == "there"
