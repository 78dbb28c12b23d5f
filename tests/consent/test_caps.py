"""How often a person is asked (n07): of an agent three questions at once and twenty an hour, and no twice."""

from __future__ import annotations

import pytest

from mcpd.consent.caps import Caps, Muted
from mcpd.errors import Failure


def kind(caps: Caps, agent: str, digest: str = "call", opened: int = 0, now: float = 0.0) -> str:
    """Of the failure with which a question is refused; empty where it may be asked."""
    try:
        caps.check(agent, digest, opened, now)
    except Failure as failure:
        return failure.kind
    return ""


@pytest.mark.parametrize(("opened", "expected"), [(0, ""), (2, ""), (3, "busy"), (9, "busy")])
def test_open_questions(opened: int, expected: str) -> None:
    assert kind(Caps(), "coder", opened=opened) == expected


def test_the_twenty_first_within_an_hour_mutes_for_an_hour_and_only_that_agent() -> None:
    caps = Caps()
    assert all(caps.spend("coder", now) for now in range(20))
    assert kind(caps, "coder", now=20.0) == ""
    assert not caps.spend("coder", 20.0)
    assert (kind(caps, "coder", now=21.0), kind(caps, "other", now=21.0)) == ("busy", "")
    assert caps.muted() == (Muted("coder", 3620.0),)
    caps.sweep(3619.9)
    assert kind(caps, "coder", now=3619.9) == "busy"
    caps.sweep(3620.0)
    assert kind(caps, "coder", now=3620.0) == ""


def test_twenty_an_hour_go_on_for_ever() -> None:
    caps = Caps()
    assert all(caps.spend("coder", 180.0 * number) for number in range(100))


def test_unmuting_gives_a_new_hour() -> None:
    caps = Caps()
    for now in range(21):
        caps.spend("coder", now)
    assert caps.unmute("coder")
    assert not caps.unmute("coder")
    assert all(caps.spend("coder", 30.0) for _ in range(20))
    assert not caps.spend("coder", 30.0)


def test_a_person_mutes_without_an_end() -> None:
    caps = Caps()
    caps.mute("coder")
    caps.sweep(1e9)
    assert kind(caps, "coder", now=1e9) == "busy"


def test_a_no_counts_for_the_same_call_for_a_quarter_of_an_hour() -> None:
    caps = Caps()
    caps.refuse("call", 100.0)
    assert (kind(caps, "coder", now=999.9), kind(caps, "coder", "another", now=999.9)) == ("denied", "")
    assert caps.refused("call", 400.0) == 600.0
    assert kind(caps, "coder", now=1000.0) == ""
    assert caps.refused("call", 2000.0) == 0.0


def test_an_agent_is_sent_to_the_user_and_the_user_to_nobody() -> None:
    caps = Caps()
    caps.refuse("call", 0.0)
    hints = []
    for agent in ("coder", ""):
        with pytest.raises(Failure) as refused:
            caps.check(agent, "call", 0, 1.0)
        hints.append(refused.value.hint)
    assert hints == ["ask the user what to do instead", ""]
