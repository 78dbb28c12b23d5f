"""When a server is tried again: D8 as a table, without a clock."""

from __future__ import annotations

import msgspec

#: Seconds before each restart of a process that had completed its opening.
CRASH_DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0)

#: Seconds between attempts that never opened, and between the tries of a crashed or lost server.
SPACING = 15.0

#: A connection to a remote that held for so many seconds was no failure when it ends: proxies cut the idle.
LONG_LIVED = 60.0


class History(msgspec.Struct, frozen=True):
    """What the loop remembers from turn to turn."""

    crashes: int = 0
    """Ends after a completed opening since the last successful call."""
    failures: int = 0
    """Attempts in a row that never opened."""
    losses: int = 0
    """Connections to a remote that were lost soon, one after the other, without a successful call between."""


class Next(msgspec.Struct, frozen=True):
    """What follows a failure.

    `delay`: seconds until the loop tries by itself, None = only when somebody asks.
    `not_before`: seconds during which even a demand is answered from the last failure.
    """

    state: str
    delay: float | None
    not_before: float


def after_loss(history: History) -> tuple[History, Next]:
    """A connection that had opened was lost."""
    crashes = history.crashes + 1
    history = msgspec.structs.replace(history, crashes=crashes, failures=0)
    if crashes > len(CRASH_DELAYS):
        return history, Next("crashed", None, SPACING)
    return history, Next("restarting", CRASH_DELAYS[crashes - 1], 0.0)


def after_remote_loss(
    history: History, *, anew: bool, lasting: bool, wanted: bool, lived: float
) -> tuple[History, Next]:
    """A connection to a remote was lost, which had been open for `lived` seconds.

    Where only its session is gone (`anew`) the next one is opened at once, unless it goes so with every
    one; a remote that nobody wants now rests meanwhile.
    """
    losses = 1 if lived >= LONG_LIVED else history.losses + 1
    history = msgspec.structs.replace(history, losses=losses, failures=0)
    if anew and losses == 1:
        return history, Next("connecting", 0.0, 0.0) if wanted else Next("idle", None, 0.0)
    return history, Next("failed", SPACING if wanted and not lasting else None, SPACING)


def after_failure(history: History, *, lasting: bool, wanted: bool) -> tuple[History, Next]:
    """An attempt ended without a connection. `wanted`: something goes on wanting one (an eager server, a
    session that has used it). The restarts after a crash go on as far as their schedule does."""
    failures = history.failures + 1
    history = msgspec.structs.replace(history, failures=failures)
    restarting = 0 < history.crashes <= len(CRASH_DELAYS) and failures < len(CRASH_DELAYS)
    if lasting or not (wanted or restarting):
        return history, Next("failed", None, SPACING)
    return history, Next("failed", SPACING, SPACING)


def after_success(history: History) -> History:
    """A call succeeded: the schedule starts again."""
    return msgspec.structs.replace(history, crashes=0, failures=0, losses=0)
