from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcpd.daemon import lock
from mcpd.errors import Failure


def test_the_second_owner_learns_who_the_first_is(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    held = lock.take(path)
    with pytest.raises(
        lock.Taken, match=f'mcpd already runs here, process {os.getpid()} holds ".*/lock"'
    ) as taken:
        lock.take(path)
    assert taken.value.pid == os.getpid()
    held.release()
    lock.take(path).release()


def test_a_file_left_by_a_crash_is_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("99999999 and more than that\n")
    held = lock.take(str(path))
    assert path.read_text() == f"{os.getpid()}\n"
    assert path.stat().st_mode & 0o777 & ~0o644 == 0
    held.release()


def test_a_new_lock_file_is_private(tmp_path: Path) -> None:
    held = lock.take(str(tmp_path / "lock"))
    assert (tmp_path / "lock").stat().st_mode & 0o077 == 0
    held.release()


def test_a_child_does_not_inherit_the_lock(tmp_path: Path) -> None:
    held = lock.take(str(tmp_path / "lock"))
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    )
    assert child.stdout is not None
    child.stdout.readline()  # before that it may still be in the middle of its exec
    held.release()
    lock.take(str(tmp_path / "lock")).release()
    child.communicate(b"\n")


def test_a_removed_lock_file_is_taken_again(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = lock.take(str(path))
    before = held.intact
    path.unlink()
    assert (before, held.intact) == (True, False)
    held.renew()
    assert (before, held.intact) == (True, True)
    path.unlink()
    other = lock.take(str(path))
    with pytest.raises(lock.Taken):
        held.renew()
    other.release()
    held.release()


@pytest.mark.parametrize("kind", ["folder", "link", "nowhere"])
def test_what_is_no_file_is_refused_and_stays(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "lock"
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "precious")
    else:
        path = tmp_path / "missing" / "lock"
    with pytest.raises(Failure, match=r'cannot open lock file ".*/lock": ') as failed:
        lock.take(str(path))
    assert not isinstance(failed.value, lock.Taken)
    assert not (tmp_path / "precious").exists()


def test_a_state_folder_has_one_daemon_and_its_socket_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "state.lock")
    held = lock.take_state(path, "/run/somewhere/control.sock")
    with pytest.raises(Failure) as refused:
        lock.take_state(path, "/run/elsewhere/control.sock")
    assert not isinstance(refused.value, lock.Taken), "whoever started it has nobody to turn to"
    assert f"process {os.getpid()}" in refused.value.message
    assert 'listens on "/run/somewhere/control.sock"' in refused.value.message
    assert "MCPD_RUNTIME_DIR=/run/somewhere " in refused.value.hint
    held.release()
    lock.take_state(path, "/run/elsewhere/control.sock").release()


def test_a_daemon_that_is_ending_is_waited_for(tmp_path: Path) -> None:
    path = str(tmp_path / "state.lock")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        other.kill()  # it is still there for a moment
        lock.take_state(path, "/run/elsewhere/control.sock").release()


HOLDER = """
import sys
from mcpd.daemon import lock
lock.take_state(sys.argv[1], "/run/somewhere/control.sock")
print(flush=True)
input()
"""


def test_a_disk_without_room_for_our_name_is_no_reason_to_stay_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: bytes, at: int) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    held = lock.take(str(tmp_path / "lock"))
    with pytest.raises(lock.Taken, match="another process"):
        lock.take(str(tmp_path / "lock"))
    held.release()
