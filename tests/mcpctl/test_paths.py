"""The socket is where the daemon puts it (reference: daemon 1)."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from mcpctl import paths
from mcpctl.errors import CallError
from mcpd.daemon import paths as daemon_paths
from mcpd.errors import Failure

UID = 4294967293
"""No such user, so that no /run/user folder of the machine matters."""


@pytest.mark.parametrize(
    ("socket", "environ", "control", "moved_by"),
    [
        (None, {}, "{home}/.local/state/mcpd/run/control.sock", ""),
        (None, {"XDG_STATE_HOME": "/s"}, "/s/mcpd/run/control.sock", ""),
        (None, {"XDG_RUNTIME_DIR": f"/run/user/{UID}"}, f"/run/user/{UID}/mcpd/control.sock", ""),
        (None, {"XDG_RUNTIME_DIR": "/x/"}, "/x/mcpd/control.sock", "XDG_RUNTIME_DIR"),
        (None, {"XDG_RUNTIME_DIR": "relative"}, "{home}/.local/state/mcpd/run/control.sock", ""),
        (
            None,
            {"MCPD_RUNTIME_DIR": "/m/", "XDG_RUNTIME_DIR": "/x"},
            "/m/control.sock",
            "MCPD_RUNTIME_DIR",
        ),
        (None, {"MCPD_SOCKET": "/a/b.sock", "MCPD_RUNTIME_DIR": "/m"}, "/a/b.sock", "MCPD_SOCKET"),
        (None, {"MCPD_SOCKET": "", "MCPD_RUNTIME_DIR": "/m"}, "/m/control.sock", "MCPD_RUNTIME_DIR"),
        ("/c.sock", {"MCPD_SOCKET": "/a/b.sock"}, "/c.sock", "--socket"),
    ],
)
def test_find(socket: str | None, environ: dict[str, str], control: str, moved_by: str) -> None:
    place = paths.find(socket, {"HOME": "/h", **environ}, UID)
    assert (place.control, place.moved_by) == (control.format(home="/h"), moved_by)
    assert place.explicit == (moved_by in ("MCPD_SOCKET", "--socket"))


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"XDG_RUNTIME_DIR": "/x"},
        {"XDG_RUNTIME_DIR": "relative"},
        {"XDG_STATE_HOME": "/s"},
        {"MCPD_RUNTIME_DIR": "/m/"},
    ],
)
def test_the_daemon_agrees(environ: dict[str, str], folder: Path) -> None:
    environ = {"HOME": str(folder), **environ}
    theirs = daemon_paths.resolve(environ, UID)
    ours = paths.find(None, environ, UID)
    assert ours.control == theirs.control_socket
    assert ours.agent("coder") == theirs.agent_socket("coder")
    assert paths.state_folder(environ) == theirs.state


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}])
def test_without_a_home_in_the_environment_it_is_the_accounts(environ: dict[str, str]) -> None:
    account = pwd.getpwuid(os.getuid()).pw_dir
    assert paths.state_folder(environ) == f"{account}/.local/state/mcpd"
    assert paths.config_folder(environ) == f"{account}/.config/mcpd"
    theirs = daemon_paths.resolve(environ, os.getuid())
    assert (theirs.state, theirs.config) == (paths.state_folder(environ), paths.config_folder(environ))


def test_an_account_that_does_not_exist_has_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is run under any number. A folder called `~` is not what anybody means."""
    monkeypatch.setattr(os, "getuid", lambda: UID)
    with pytest.raises(CallError, match="HOME is not set"):
        paths.state_folder({})
    with pytest.raises(Failure, match="HOME is not set"):
        daemon_paths.resolve({}, UID)
    assert paths.state_folder({"XDG_STATE_HOME": "/s"}) == "/s/mcpd"


def test_a_relative_runtime_folder_is_refused() -> None:
    with pytest.raises(CallError) as caught:
        paths.find(None, {"MCPD_RUNTIME_DIR": "here"}, UID)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["", "../x", ".", "a/b", "A", "_x", "a b", "a\n"])
def test_an_agents_name_cannot_leave_its_folder(name: str) -> None:
    with pytest.raises(CallError):
        paths.Place("/run").agent(name)


def test_agent_sockets() -> None:
    assert paths.Place("/run").agent("coder") == "/run/agents/coder/mcp.sock"
    assert paths.find("/run/control.sock", {}, UID).agent("coder") == "/run/agents/coder/mcp.sock"
    assert paths.find("/a/mcp.sock", {}, UID).agent("coder") == "/a/mcp.sock"


def test_private(folder: Path) -> None:
    uid = os.getuid()
    folder.chmod(0o700)
    assert paths.private(str(folder), uid)
    assert not paths.private(str(folder), uid + 1)
    assert not paths.private(str(folder / "missing"), uid)
    (folder / "link").symlink_to(folder)
    assert not paths.private(str(folder / "link"), uid)
    folder.chmod(0o750)
    assert not paths.private(str(folder), uid)
    folder.chmod(0o700)
