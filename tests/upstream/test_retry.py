"""D8, read off the contract."""

from __future__ import annotations

from mcpd.upstream.retry import (
    LONG_LIVED,
    History,
    after_failure,
    after_loss,
    after_remote_loss,
    after_success,
)


def test_a_process_that_ends_after_its_opening_is_restarted_five_times_then_crashed() -> None:
    history = History()
    delays = []
    for _ in range(5):
        history, following = after_loss(history)
        assert following.state == "restarting"
        delays.append(following.delay)
    assert delays == [1, 2, 4, 8, 16]
    history, following = after_loss(history)
    assert (following.state, following.delay, following.not_before) == ("crashed", None, 15)


def test_a_successful_call_starts_the_schedule_again() -> None:
    history = History(crashes=4)
    _, following = after_loss(after_success(history))
    assert following.delay == 1


def test_an_attempt_that_never_opened_is_retried_while_something_wants_it() -> None:
    _, following = after_failure(History(), lasting=False, wanted=True)
    assert (following.state, following.delay) == ("failed", 15)
    _, following = after_failure(History(), lasting=False, wanted=False)
    assert (following.state, following.delay) == ("failed", None)


def test_what_cannot_mend_itself_is_not_retried_by_itself() -> None:
    for wanted in (True, False):
        _, following = after_failure(History(), lasting=True, wanted=wanted)
        assert following.delay is None


def lost(history: History, **how: bool | float) -> tuple[History, str, float | None, float]:
    defaults = {"anew": True, "lasting": False, "wanted": True, "lived": 1.0}
    history, following = after_remote_loss(history, **{**defaults, **how})  # type: ignore[arg-type]
    return history, following.state, following.delay, following.not_before


def test_a_lost_session_is_opened_again_at_once_and_then_every_15_seconds() -> None:
    history, *first = lost(History())
    assert first == ["connecting", 0.0, 0.0]
    for _ in range(3):
        history, *next_one = lost(history)
        assert next_one == ["failed", 15.0, 15.0]
    assert lost(after_success(history))[1:] == ("connecting", 0.0, 0.0)


def test_a_session_that_held_long_counts_as_no_failure() -> None:
    history, *_ = lost(History(losses=4), lived=LONG_LIVED)
    assert history.losses == 1
    assert lost(History(losses=4), lived=LONG_LIVED)[1] == "connecting"


def test_a_lost_session_that_nobody_uses_rests_until_somebody_does() -> None:
    assert lost(History(), wanted=False)[1:] == ("idle", None, 0.0)
    assert lost(History(losses=1), wanted=False)[1:] == ("failed", None, 15.0)


def test_a_dead_remote_is_tried_every_15_seconds_while_something_wants_it() -> None:
    assert lost(History(), anew=False)[1:] == ("failed", 15.0, 15.0)
    assert lost(History(), anew=False, wanted=False)[1:] == ("failed", None, 15.0)


def test_a_refused_login_waits_for_a_person() -> None:
    assert lost(History(), anew=False, lasting=True)[1:] == ("failed", None, 15.0)
