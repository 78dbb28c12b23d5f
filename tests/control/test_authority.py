"""Who may widen (n06), from chains of parents as /proc tells them. Expected by the contract's words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.consent.hosts import Hosting
from mcpd.control.authority import judge
from mcpd.processes import Link

ME = 1000
OF_INIT = 1
OUTSIDE = 0


def chain(*names: str, top: int = OF_INIT, uid: int = ME, root: tuple[str, ...] = ()) -> tuple[Link, ...]:
    """A chain of intact parents, the process first; every name is another pid, the same in all chains."""
    pids = [PIDS[name] for name in names]
    parents = [*pids[1:], top]
    session = pids[-1]
    return tuple(
        Link(pid, 1, parent=parent, session=session, uid=0 if name in root else uid, name=name)
        for name, pid, parent in zip(names, pids, parents, strict=True)
    )


NAMES = ("mcpctl", "sh", "bash", "claude", "bridge", "zed", "tmux: server", "sshd", "foot", "cron", "script")
PIDS = {name: 100 + at for at, name in enumerate(NAMES)}


def hosting(*names: str) -> Hosting:
    return {(PIDS[name], 1): "s1" for name in names}


REFUSED, UNVERIFIED, NOTHING = "refused", "unverified", ""

TABLE: dict[str, tuple[tuple[Link, ...], Hosting, Hosting, str]] = {
    "the attached process itself": (chain("claude", "bash"), hosting("claude"), {}, REFUSED),
    "a program of the host's": (chain("mcpctl", "sh", "claude", "bash"), hosting("claude"), {}, REFUSED),
    "below a script(1) of the host's": (
        chain("mcpctl", "sh", "script", "claude"),
        hosting("claude", "bridge"),
        {},
        REFUSED,
    ),
    "a login over ssh beside an agent": (
        chain("mcpctl", "bash", "sshd", root=("sshd",)),
        hosting("claude"),
        {},
        NOTHING,
    ),
    "an agent in a login over ssh": (
        chain("mcpctl", "claude", "bash", "sshd", root=("sshd",)),
        hosting("claude"),
        {},
        REFUSED,
    ),
    "something called sshd of the user's own": (
        chain("mcpctl", "bash", "sshd"),
        hosting("claude"),
        {},
        UNVERIFIED,
    ),
    "a job of cron's, which runs whatever the user's programs put there": (
        chain("mcpctl", "sh", "cron", root=("cron",)),
        {},
        {},
        UNVERIFIED,
    ),
    "a pane of tmux, which has left who started it": (
        chain("mcpctl", "bash", "tmux: server"),
        hosting("claude"),
        {},
        UNVERIFIED,
    ),
    "a terminal that the user's manager has, or has taken over": (
        chain("mcpctl", "bash", "foot"),
        {},
        {},
        UNVERIFIED,
    ),
    "started from outside of the container": (chain("mcpctl", "bash", top=OUTSIDE), {}, {}, NOTHING),
    "the terminal of an editor that hosted an agent": (
        chain("mcpctl", "bash", "zed", top=OUTSIDE),
        {},
        hosting("zed"),
        UNVERIFIED,
    ),
    "the same while the agent is there": (
        chain("mcpctl", "bash", "zed", top=OUTSIDE),
        hosting("zed"),
        {},
        REFUSED,
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_who_may_widen(case: str) -> None:
    links, present, past, expected = TABLE[case]
    assert told(links, links, present, past) == expected


def told(origin: tuple[Link, ...], current: tuple[Link, ...], present: Hosting, past: Hosting) -> str:
    verdict = judge(100, origin, current, present, past, ME)
    return REFUSED if verdict.refused else UNVERIFIED if verdict.unverified else NOTHING


def test_a_parent_that_was_left_after_the_connection_was_opened_still_counts() -> None:
    origin = chain("mcpctl", "sh", "claude")
    assert told(origin, chain("mcpctl"), hosting("claude"), {}) == REFUSED


def test_a_session_whose_leader_is_no_parent_tells_that_one_was_left() -> None:
    """As after a second fork: the process still is in the session of the agent's terminal."""
    left = Link(100, 1, parent=1, session=PIDS["bash"], uid=ME, name="mcpctl")
    verdict = judge(100, (left,), (left,), {}, {}, ME)
    assert verdict.unverified == "mcpctl[100] has left the process that started it"


def test_nobody_answers_for_a_process_that_has_ended() -> None:
    assert told((), (), {}, {}) == REFUSED
    assert told(chain("mcpctl", "sh"), (), {}, {}) == REFUSED


def test_a_process_of_another_pid_namespace_cannot_be_told() -> None:
    verdict = judge(0, (), (), hosting("claude"), {}, ME)
    assert (verdict.refused, verdict.unverified != "") == ("", True)


def test_another_process_with_the_number_of_a_host_is_not_it() -> None:
    later = Link(PIDS["claude"], 2, parent=1, session=PIDS["claude"], uid=ME, name="claude")
    verdict = judge(PIDS["claude"], (later,), (later,), hosting("claude"), {}, ME)
    assert verdict.refused == ""


links = st.builds(
    Link,
    st.sampled_from(list(PIDS.values())),
    st.just(1),
    parent=st.sampled_from([0, 1, *PIDS.values()]),
    session=st.sampled_from([0, 1, *PIDS.values()]),
    terminal=st.sampled_from([0, 34816]),
    uid=st.sampled_from([0, ME]),
    name=st.sampled_from(NAMES),
)


@given(st.lists(links, max_size=6), st.lists(links, max_size=6), st.sampled_from(NAMES))
def test_below_an_agent_nothing_helps(origin: list[Link], current: list[Link], host: str) -> None:
    """Whatever else stands in the chains: a process of an agent's in either is the end of it."""
    present = hosting(host)
    known = any(link.ident in present for link in (*origin, *current))
    verdict = judge(100, origin, current, present, {}, ME)
    assert bool(verdict.refused) is (known or not current)


@given(st.lists(links, min_size=1, max_size=6), st.integers(0, 2**16))
def test_terminal_and_session_refuse_nobody(current: list[Link], number: int) -> None:
    for link in current:
        link.terminal = link.session = number
    assert judge(100, current, current, {}, {}, ME).refused == ""
