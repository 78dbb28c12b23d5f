"""The second factor: a passphrase that a person types when a process cannot be told from an agent's (n06).

Kept as a scrypt hash in state.db. It is a hurdle for programs that may do as they like with the user's
sockets, not for one that may change the user's files: that one can take the row away.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

import trio

from mcpd.consent.store import Store
from mcpd.errors import Failure

#: Characters of a passphrase: fewer are soon guessed, more are no passphrase.
SHORTEST = 8
LONGEST = 1024

#: The cost of one try in memory (32 MiB) and time (0.1 s): RFC 7914 calls N = 2**14 fit for logging in.
_N, _R, _P = 2**15, 8, 1
_MEMORY = 2 * 128 * _N * _R

#: Wrong passphrases in a row, after which each further try has to wait.
TRIES = 5
PAUSE = 60.0
"""Seconds."""


class Factor:
    """The only owner of the passphrase. One try at a time, so that many cost no more memory than one."""

    def __init__(self, store: Store, clock: Callable[[], float] = trio.current_time) -> None:
        self._store = store
        self._clock = clock
        rows = store.rows("select salt, hash, set_at from factor")
        self._kept: tuple[bytes, bytes] | None = (bytes(rows[0][0]), bytes(rows[0][1])) if rows else None
        self.set_at: float = rows[0][2] if rows else 0.0
        """Seconds since the epoch; 0 where none is set."""
        self._trying = trio.Lock()
        self._wrong = 0
        self._until = 0.0

    @property
    def is_set(self) -> bool:
        return self._kept is not None

    async def check(self, passphrase: str) -> bool:
        """Whether it is the one that was set. Raises Failure `busy` after too many wrong ones."""
        async with self._trying:
            if self._kept is None:
                return False
            if self._wrong >= TRIES and (left := self._until - self._clock()) > 0:
                raise Failure(
                    "busy",
                    f"cannot take another passphrase now: {self._wrong} were wrong",
                    hint=f"try again in {left:.0f} s",
                    retry_after=left,
                )
            salt, kept = self._kept
            right = hmac.compare_digest(await _hashed(passphrase, salt), kept)
            self._wrong = 0 if right else self._wrong + 1
            self._until = self._clock() + PAUSE
            return right

    async def set(self, passphrase: str) -> None:
        """Put it in the place of another. Raises Failure `invalid_params`, `not_writable`."""
        if not SHORTEST <= len(passphrase) <= LONGEST:
            raise Failure("invalid_params", f"a passphrase has {SHORTEST} to {LONGEST} characters")
        salt = secrets.token_bytes(16)
        async with self._trying:
            hashed = await _hashed(passphrase, salt)
            now = time.time()
            put = ("insert or replace into factor values (1, ?, ?, ?)", (salt, hashed, now))
            self._store.write("keep the passphrase", put)
            self._kept, self.set_at = (salt, hashed), now

    def remove(self) -> None:
        """Raises Failure `not_writable`: it is still asked for then."""
        self._store.write("forget the passphrase", ("delete from factor", ()))
        self._kept, self.set_at = None, 0.0


async def _hashed(passphrase: str, salt: bytes) -> bytes:
    given = passphrase.encode("utf-8", "surrogatepass")[: 4 * LONGEST]
    return await trio.to_thread.run_sync(
        lambda: hashlib.scrypt(given, salt=salt, n=_N, r=_R, p=_P, maxmem=_MEMORY, dklen=32)
    )
