"""D8, read off the contract."""

from __future__ import annotations

from mcpd.upstream.retry import History, after_failure, after_loss, after_success


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
