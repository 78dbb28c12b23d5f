"""Who is there is asked of the kernel; a root that a process claims must be its own (DESIGN 3)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from mcpd.agents.identity import Peer, check_root, peer_of
from mcpd.errors import Failure


def peer(cwd: Path | str, pid: int = 0) -> Peer:
    return Peer(pid, sys.executable, str(cwd))


def refusal(root: Path | str, who: Peer) -> Failure:
    with pytest.raises(Failure) as caught:
        check_root(str(root), who)
    assert caught.value.kind == "invalid_params"
    return caught.value


async def test_the_peer_is_who_the_kernel_says(real_clock: None) -> None:
    ours, theirs = trio.socket.socketpair()
    with ours, theirs:
        exe, cwd = os.readlink("/proc/self/exe"), os.path.realpath(os.getcwd())
        assert peer_of(ours) == Peer(os.getpid(), exe, cwd)


async def test_what_cannot_be_read_of_a_peer_is_empty(real_clock: None, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        connect = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
        child = subprocess.Popen([sys.executable, "-I", "-c", connect])
        child.wait()
        sock, _ = listener.accept()
        with sock:
            found = peer_of(trio.socket.from_stdlib_socket(sock))
    assert (found.pid, found.exe, found.cwd) == (child.pid, "", "")


@pytest.mark.parametrize("inside", ["", "src", "src/deep"])
def test_a_root_contains_the_folder_in_which_the_process_works(tmp_path: Path, inside: str) -> None:
    cwd = tmp_path / inside
    cwd.mkdir(parents=True, exist_ok=True)
    assert check_root(str(tmp_path), peer(cwd)) == str(tmp_path)


def test_a_root_is_known_by_its_real_path(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    assert check_root(str(tmp_path / "link"), peer(real)) == str(real)


def test_a_root_elsewhere_is_refused(tmp_path: Path) -> None:
    work, other, alike = tmp_path / "work", tmp_path / "other", tmp_path / "wor"
    for folder in (work, other, alike):
        folder.mkdir()
    for root in (other, alike):
        assert "does not work in it" in refusal(root, peer(work)).message
    assert "does not work in it" in refusal(work, peer("")).message, "a cwd that nobody knows proves nothing"


@pytest.mark.parametrize(
    ("root", "words"),
    [
        ("missing", "No such file or directory"),
        ("file", "not a folder of this user"),
        ("loop", "cannot use root"),
        ("nul\0byte", "cannot use root"),
        ("x" * 5000, "cannot use root"),
    ],
)
def test_what_is_no_folder_is_refused_in_words(tmp_path: Path, root: str, words: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert words in refusal(f"{tmp_path}/{root}", peer(tmp_path)).message


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    root = Path("/usr")
    if os.getuid() == 0:
        root = tmp_path / "theirs"
        root.mkdir()
        os.chown(root, 65534, -1)
    assert "not a folder of this user" in refusal(root, peer(root)).message


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that works in the root folder `/` and whose parent works in `tmp_path`."""
    script = (
        "import subprocess, sys; child = subprocess.Popen(['cat'], cwd='/', stdin=0);"
        "print(child.pid, flush=True); child.wait()"
    )
    host = subprocess.Popen(
        [sys.executable, "-I", "-c", script], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert host.stdin is not None
    assert host.stdout is not None
    with host:
        yield host
        host.stdin.close()


def test_the_folder_of_the_parent_counts_for_a_bridge(
    bridge: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    assert bridge.stdout is not None
    pid = int(bridge.stdout.readline())
    assert check_root(str(tmp_path), peer("/", pid)) == str(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    assert "does not work in it" in refusal(other, peer("/", pid)).message


def test_a_peer_that_has_gone_has_no_parent(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert "does not work in it" in refusal(tmp_path, peer("/", gone.pid)).message
