from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from mcpd.daemon import paths
from mcpd.errors import Failure
from tests.conftest import Home

UID = os.getuid()


def test_the_environment_names_every_folder(home: Home) -> None:
    found = paths.resolve(home.environ, UID)
    assert found.servers_dir == f"{home.config}/mcpd/servers.d"
    assert found.state_db == f"{home.state}/mcpd/state.db"
    assert found.journal_db == f"{home.state}/mcpd/journal.db"
    assert found.log_file == f"{home.state}/mcpd/mcpd.log"
    assert found.cache == f"{home.cache}/mcpd"
    assert found.lock == f"{home.runtime}/mcpd/lock"
    assert found.control_socket == f"{home.runtime}/mcpd/control.sock"
    assert found.agent_socket("coder") == f"{home.runtime}/mcpd/agents/coder/mcp.sock"


def test_without_variables_the_defaults_of_xdg_hold(home: Home) -> None:
    found = paths.resolve({"HOME": str(home.root)}, UID)
    assert found.config == f"{home.root}/.config/mcpd"
    assert found.state == f"{home.root}/.local/state/mcpd"
    assert found.cache == f"{home.root}/.cache/mcpd"


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}])
def test_servers_have_the_home_that_mcpd_took(tmp_path: Path, environ: dict[str, str]) -> None:
    """Without one they ran in / instead of there, and where it was empty they did not start."""
    program = "import os\nfrom mcpd.daemon import paths\npaths.settle()\nprint(os.environ['HOME'])"
    folders = {"MCPD_RUNTIME_DIR": str(tmp_path / "run"), "XDG_STATE_HOME": str(tmp_path)}
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**folders, **environ},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.strip() == pwd.getpwuid(os.getuid()).pw_dir


@pytest.mark.parametrize(
    ("environ", "runtime"),
    [
        ({"MCPD_RUNTIME_DIR": "/a/b/", "XDG_RUNTIME_DIR": "/c"}, "/a/b"),
        ({"MCPD_RUNTIME_DIR": "", "XDG_RUNTIME_DIR": "/c/"}, "/c/mcpd"),
        # A relative path is invalid and ignored (XDG base directory specification).
        ({"XDG_RUNTIME_DIR": "c", "XDG_STATE_HOME": "/s"}, "/s/mcpd/run"),
        ({"XDG_STATE_HOME": "/s"}, "/s/mcpd/run"),
        ({"HOME": "/h"}, "/h/.local/state/mcpd/run"),
    ],
)
def test_runtime_folder(environ: dict[str, str], runtime: str) -> None:
    nobody = 2**31 - 3  # a user without a folder below /run/user
    assert paths.resolve({"HOME": "/home/x", **environ}, nobody).runtime == runtime


def test_a_relative_runtime_folder_is_refused() -> None:
    with pytest.raises(Failure, match='cannot use MCPD_RUNTIME_DIR "x/y": it is not an absolute path'):
        paths.resolve({"HOME": "/h", "MCPD_RUNTIME_DIR": "x/y"}, UID)


def test_the_runtime_id_is_that_of_the_real_folder(home: Home) -> None:
    real = home.runtime / "mcpd"
    real.mkdir()
    link = home.root / "link"
    link.symlink_to(home.runtime)
    by_link = paths.resolve({**home.environ, "XDG_RUNTIME_DIR": str(link)}, UID)
    direct = paths.resolve(home.environ, UID)
    assert by_link.runtime_id == direct.runtime_id
    assert by_link.runtime_id != paths.resolve({**home.environ, "MCPD_RUNTIME_DIR": "/x"}, UID).runtime_id
    assert "." not in direct.runtime_id


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_folders_are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "a" / "b" / "c"
    before = os.umask(umask)
    try:
        paths.make_private(str(folder), UID)
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (folder, *list(folder.parents)[:2])] == [0o700] * 3
    paths.make_private(str(folder), UID)


def test_a_folder_open_to_others_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o750)
    with pytest.raises(
        Failure, match=r'cannot use folder ".*/run": it is open to others \(mode 0750\)'
    ) as failed:
        paths.make_private(str(folder), UID)
    assert failed.value.hint == f"chmod 700 '{folder}'"
    assert folder.stat().st_mode & 0o777 == 0o750


def test_a_folder_of_another_owner_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    with pytest.raises(Failure, match=f"it belongs to user {UID}"):
        paths.make_private(str(folder), UID + 1)


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_no_folder_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run"
    if kind == "file":
        path.touch()
    else:
        (tmp_path / "other").mkdir(mode=0o700)
        path.symlink_to(tmp_path / "other")
    with pytest.raises(Failure, match="it is not a folder"):
        paths.make_private(str(path), UID)


def test_a_folder_below_a_file_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Failure, match=r"cannot (use|create) folder"):
        paths.make_private(str(tmp_path / "file" / "run"), UID)


@pytest.mark.parametrize(
    ("path", "fits"), [("/" + "a" * 106, True), ("/" + "a" * 107, False), ("/" + "é" * 54, False)]
)
def test_a_socket_path_has_at_most_107_bytes(path: str, fits: bool) -> None:
    if fits:
        paths.check_socket_path(path)
    else:
        with pytest.raises(Failure, match=f'cannot use socket path "{path}": 10[89] bytes'):
            paths.check_socket_path(path)
