"""The grants that people have given, in state.db; those for a session live in memory, as it does.

What has come to its end, by time or by count, covers nothing; its row goes with the next change.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from mcpd.config.spec import Problem
from mcpd.consent.store import Statement, Store
from mcpd.errors import Failure
from mcpd.policy.grants import Grant, Request, covers, lasts

#: Grants at once: each is looked at where a request of its server is decided.
MOST: Final = 1000
#: Seconds that one is kept after its last use: its request may still wait for its server, and give that back.
KEPT: Final = 3600.0

_INSERT: Final = "insert into grants (id, server, destination, terms, used) values (?, ?, ?, ?, ?)"
_DELETE: Final = "delete from grants where id = ?"
_USE: Final = "update grants set used = ? where id = ?"


class Given(NamedTuple):
    """A grant and how often it has been needed; of one without a count, since the daemon started."""

    grant: Grant
    used: int


class GrantBook:
    """The only owner of the grants. Not for use by several threads at once.

    `problems` names rows of the database that cannot be read; they grant nothing.
    """

    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = now
        self._latest = 0.0
        self._grants: dict[str, Grant] = {}
        """By id."""
        self._used: dict[str, int] = {}
        self._used_at: dict[str, float] = {}
        """Of those that this daemon has used and that come to an end by it."""
        self._of: dict[str, list[Grant]] = {}
        """By server, those without a count first: no count is spent where a lasting one does."""
        problems = []
        for key, terms, used in store.rows("select id, terms, used from grants order by rowid"):
            try:
                grant = msgspec.json.decode(terms, type=Grant)
            except msgspec.DecodeError as error:
                problems.append(Problem(str(store.path), f"grant {key}", f"cannot be read: {error}"))
                continue
            self._grants[key] = grant
            self._used[key] = used
        self._index()
        self.problems = tuple(problems)

    def _now(self) -> float:
        """Seconds since the epoch. A clock that is set back makes no grant longer, and brings none back."""
        self._latest = max(self._latest, self._clock())
        return self._latest

    def all(self) -> tuple[Given, ...]:
        """Those that have not come to their end, the oldest first."""
        now = self._now()
        given = [Given(grant, self._used[key]) for key, grant in self._grants.items()]
        return tuple(
            sorted((each for each in given if lasts(*each, now)), key=lambda each: each.grant.made_at)
        )

    def find(self, request: Request, counted: str = "") -> Grant | None:
        """A grant that covers the request. `counted` is the id of the one that it was counted for, when it is
        decided once more: its last use is still this request's."""
        for grant in self._of.get(request.server, ()):
            used = self._used[grant.id] - (grant.id == counted)
            if covers(grant, request, used, self._now()):
                return grant
        return None

    def use(self, grant: Grant) -> None:
        """Count one request that needed the grant; to be called between `find` and sending, without a wait.

        Raises Failure `not_writable` where that cannot be noted: the request must not go on then.
        """
        used = self._used[grant.id] + 1
        if grant.uses and grant.lifespan != "session":
            self._store.write(f"count the use of grant {grant.id}", (_USE, (used, grant.id)))
        self._used[grant.id] = used
        if grant.uses:
            self._used_at[grant.id] = self._now()

    def give_back(self, key: str) -> None:
        """A request that was counted for the grant of this id, if there is one, has not been sent."""
        grant, used = self._grants.get(key), self._used.get(key, 0) - 1
        if grant is None or used < 0:
            return
        self._used[key] = used
        if grant.uses and grant.lifespan != "session":
            # What cannot be noted stays counted for the next daemon.
            with contextlib.suppress(Failure):
                self._store.write(f"count the use of grant {key} no more", (_USE, (used, key)))

    def counts(self, key: str) -> bool:
        """Whether a request that was counted for this grant may still go by it."""
        grant = self._grants.get(key)
        return grant is not None and lasts(grant, self._used[key] - 1, self._now())

    def new_id(self) -> str:
        """Random, and nobody's."""
        while (key := secrets.token_hex(4)) in self._grants:
            pass
        return key

    def add(self, grant: Grant) -> None:
        """Keep a new grant. Raises Failure `not_writable`, `refused` where there are too many."""
        self._drop_ended()
        if len(self._grants) >= MOST:
            raise Failure(
                "refused", f"cannot keep more than {MOST} grants", hint="mcpctl grants; mcpctl revoke ID"
            )
        if grant.lifespan != "session":
            terms = msgspec.json.encode(grant).decode()
            row = (grant.id, grant.server, grant.destination, terms, 0)
            self._store.write("keep a grant", (_INSERT, row))
        self._grants[grant.id] = grant
        self._used[grant.id] = 0
        self._index()

    def revoke(self, key: str) -> Grant:
        """Take a grant back. Raises Failure `no_such_grant`, also for one that has come to its end: from here
        on no use of it comes back any more; and `not_writable`: this daemon has forgotten it all the same,
        and the next would know it again."""
        grant = self._grants.get(key)
        lasted = grant is not None and lasts(grant, self._used[key], self._now())
        if grant is not None:
            self._drop("take back a grant", [key])
        if grant is None or not lasted:
            raise Failure("no_such_grant", f'no grant has the id "{key[:60]}"', hint="mcpctl grants")
        return grant

    def of_agent(self, agent: str) -> tuple[str, ...]:
        """The ids of an agent's own, also of those at their end: a use of theirs may still come back."""
        return tuple(key for key, grant in self._grants.items() if grant.agent == agent)

    @property
    def agents(self) -> frozenset[str]:
        """Whose they are, those at their end included."""
        return frozenset(grant.agent for grant in self._grants.values())

    def end_session(self, session: str) -> bool:
        """A session has ended, and with it the grants for it; whether there were any."""
        ended = [
            key
            for key, grant in self._grants.items()
            if grant.lifespan == "session" and grant.session == session
        ]
        self._remove(ended)
        return bool(ended)

    def filed(self, server: str) -> bool:
        """Whether there is any grant for a server of this name, wherever it is (n24)."""
        return any(given.grant.server == server for given in self.all())

    def forget(self, server: str) -> bool:
        """A server was removed: one of that name is another one. Whether it had any grants. Raises Failure
        `not_writable`, as `revoke` does."""
        ended = [grant.id for grant in self._of.get(server, ())]
        self._drop("forget the grants of a server", ended)
        return bool(ended)

    def _drop_ended(self) -> None:
        now = self._now()
        used_at = self._used_at if len(self._grants) < MOST else {}
        ended = [
            key
            for key, grant in self._grants.items()
            if not lasts(grant, self._used[key], now) and used_at.get(key, -KEPT) + KEPT <= now
        ]
        self._drop("forget grants that have ended", ended)

    def _drop(self, what: str, keys: list[str]) -> None:
        if not keys:
            return
        statements: list[Statement] = [
            (_DELETE, (key,)) for key in keys if self._grants[key].lifespan != "session"
        ]
        self._remove(keys)
        if statements:
            self._store.write(what, *statements)

    def _remove(self, keys: list[str]) -> None:
        for key in keys:
            del self._grants[key], self._used[key]
            self._used_at.pop(key, None)
        self._index()

    def _index(self) -> None:
        self._of = {}
        for grant in sorted(self._grants.values(), key=lambda each: bool(each.uses)):
            self._of.setdefault(grant.server, []).append(grant)
