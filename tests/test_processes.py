"""Facts of processes: read right whatever they call themselves, and chains of parents."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from mcpd import processes


@pytest.mark.parametrize(
    ("text", "name", "numbers"),
    [
        (b"7 (node) S 1 5 6 0 -1 4 0 0 0 0 1 2 0 0 20 0 11 0 4711 9 9", "node", (1, 5, 6, 4711)),
        (b"7 (a) b (c) S 2 3 4 0 -1 4 0 0 0 0 1 2 0 0 20 0 11 0 12 9 9", "a) b (c", (2, 3, 4, 12)),
        (b"7 (\xff \n) Z 2 3 4 0 -1 4 0 0 0 0 1 2 0 0 20 0 11 0 12 9 9", "\ufffd \n", (2, 3, 4, 12)),
    ],
)
def test_stat_is_read_whatever_the_name_of_the_process(
    text: bytes, name: str, numbers: tuple[int, int, int, int]
) -> None:
    stat = processes.Stat(text)
    assert (stat.name, (stat.parent, stat.group, stat.session, stat.started)) == (name, numbers)


@pytest.mark.parametrize(
    ("environ", "marker"),
    [
        (b"", ""),
        (b"PATH=/bin\0HOME=/\0", ""),
        (b"MCPD_CHILD_OF=a.b.1\0PATH=/bin\0", "a.b.1"),
        (b"PATH=/bin\0MCPD_CHILD_OF=a.b.1", "a.b.1"),
        (b"NOT_MCPD_CHILD_OF=a.b.1\0", ""),
        (b"X=MCPD_CHILD_OF=a.b.1\0", ""),
    ],
)
def test_the_marker_is_a_whole_variable(environ: bytes, marker: str) -> None:
    assert processes.marker_of(environ) == marker


@pytest.mark.parametrize(
    ("marker", "owner", "belongs"),
    [
        ("rt.i.1", "rt.i.1", True),
        ("rt.i.1", "rt.i", True),
        ("rt.i.1", "rt", True),
        ("rt.i.12", "rt.i.1", False),
        ("rt.i2.1", "rt.i", False),
        ("rt2.i.1", "rt", False),
        ("", "rt", False),
    ],
)
def test_a_marker_belongs_to_whole_names_only(marker: str, owner: str, belongs: bool) -> None:
    assert processes.belongs(marker, owner) is belongs


def test_a_chain_begins_with_the_process_and_leads_up() -> None:
    links = processes.chain(os.getpid())
    assert links[0].pid == os.getpid()
    assert [link.parent for link in links[:-1]] == [link.pid for link in links[1:]]
    assert links[0].session == os.getsid(0)
    assert links[0].uid == os.getuid()
    assert all(link.pid > 1 for link in links)


def test_a_chain_holds_what_a_process_was_started_with() -> None:
    code = "import sys; print(flush=True); sys.stdin.read()"
    environ = {"PATH": os.environ["PATH"], processes.MARKER: "rt.i.7"}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        link, parent, *_ = processes.chain(child.pid)
        assert link.argv == (sys.executable, "-c", code)
        assert link.marker == "rt.i.7"
        assert parent.pid == os.getpid()
        assert processes.alive(link.ident)
        assert not processes.alive((child.pid, link.started - 1))
        child.stdin.close()
    assert not processes.alive(link.ident)


def test_there_is_no_chain_of_nobody() -> None:
    assert processes.chain(0) == ()
    assert processes.chain(2**22 + 1) == ()
    assert processes.look(2**22 + 1) is None
    assert processes.linked(2**22 + 1, "exe") == ""


def test_a_process_that_has_ended_and_was_not_taken_leave_of_is_gone() -> None:
    child = subprocess.Popen(["true"])
    end = time.monotonic() + 20
    while processes.look(child.pid) is not None:
        assert time.monotonic() < end
    child.wait()


def test_of_a_huge_environment_the_beginning_is_looked_at() -> None:
    """It is read for each parent of whoever connects, and each may have two megabytes."""
    environ = {"MCPD_CHILD_OF": "rt.i.1", **{f"V{number}": "x" * 100_000 for number in range(15)}}
    late = {**{f"V{number}": "x" * 100_000 for number in range(15)}, "MCPD_CHILD_OF": "rt.i.1"}
    for variables, marker in ((environ, "rt.i.1"), (late, "")):
        with subprocess.Popen(
            ["/bin/cat"], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            # Whoever answers has its environment; in the middle of a start /proc shows none.
            child.stdin.write(b"there?\n")
            child.stdin.flush()
            assert child.stdout.readline() == b"there?\n"
            link = processes.look(child.pid)
            assert link is not None
            assert link.marker == marker
            child.communicate()
