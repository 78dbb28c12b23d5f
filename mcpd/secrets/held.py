"""The owner of the engine that knows every value mcpd holds, and the scans of what passes (n17, b25).

What goes to a server is never altered: it is let through, asked for or blocked. What comes back is redacted.
What is held stays matched as long as the definition that holds it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeVar

import trio

from mcpd.policy import hidden
from mcpd.policy.leaks import strings
from mcpd.policy.leaks.engine import SLICE, Engine
from mcpd.policy.leaks.finding import Finding, Leak
from mcpd.policy.leaks.strings import Flat
from mcpd.policy.leaks.values import Held

#: Bytes that are looked through without a look at who else wants to run.
AT_ONCE: Final = 32 * 1024
#: Bytes past which only held values are looked for, and that is said (search-and-leaks 2.3).
CEILING: Final = 16 * 1024 * 1024
#: Bytes whose escapes are resolved in the same way: up to 1 us each.
ESCAPED: Final = 16 * 1024
#: Values that are held no more and still looked for.
PAST: Final = 200


P = ParamSpec("P")
T = TypeVar("T")


class Scanned(NamedTuple):
    """An answer as it may be passed on."""

    text: bytes
    """The very same object where nothing was found."""
    found: tuple[Finding, ...] = ()
    """What was redacted, and of layer 3 what was only noticed."""
    hidden: int = 0
    """Runs of hidden characters that were marked."""
    whole: bool = True
    """False where it was too large for more than held values."""


class HeldValues:
    """`hold` replaces what is held; every scan works on what is held at its beginning, in any thread."""

    def __init__(self) -> None:
        self._engine = Engine()
        self._held: frozenset[Held] = frozenset()
        self._past: dict[Held, None] = {}
        """What was held before, the oldest first."""
        self.times_held = 0
        """How often something else has come to be held."""

    def __reduce__(self) -> str:
        raise TypeError("what is held is never written anywhere")

    def hold(self, values: Iterable[Held]) -> None:
        """Hold these. What was held before is looked for as well: its server may still say it, and it may
        still open something. Making the engine takes a few milliseconds."""
        held = frozenset(values)
        if held == self._held:
            return
        past = dict.fromkeys((*self._past, *sorted(self._held)))
        self._past = dict.fromkeys([value for value in past if value not in held][-PAST:])
        # In one order, so that a value of two names has the same one each time.
        self._engine = Engine([*sorted(held), *self._past])
        self._held = held
        # Last: what is found under a number is found by that one's engine, or a newer one.
        self.times_held += 1

    def is_clean(self, payload: bytes) -> bool:
        """Whether `arguments` would find nothing, if that can be said at once: of most calls it can."""
        return len(payload) <= AT_ONCE and b"\\" not in payload and not self._engine.find(payload)

    def passes(self, text: bytes, *, gives_secrets: bool = False) -> bool:
        """Whether `result` would change nothing, as far as that can be said at once: nothing is written
        otherwise than it is meant, nothing can hide. Most answers are like that."""
        return (
            len(text) <= AT_ONCE
            and text.isascii()
            and b"\\" not in text
            and not self._engine.find(text, 1 if gives_secrets else 3)
        )

    async def arguments(self, server: str, payload: bytes, *, takes_secrets: bool = False) -> Leak | None:
        """What must not, or should not, go to the server; `payload` is JSON text, or members without braces.

        `takes_secrets`: what looks like a secret is nothing to ask about. The server's own values are its
        own.
        """
        if len(payload) <= AT_ONCE:
            return self.leak(server, payload, takes_secrets=takes_secrets)
        engine = self._engine
        told = await _flat(payload)
        found = await _found(engine, told.text, 3 if len(payload) <= CEILING else 1)
        return _leak(server, found, takes_secrets) if found else None

    def leak(self, server: str, payload: bytes, *, takes_secrets: bool = False) -> Leak | None:
        """The same of what is of bounded size, at once."""
        found = self._engine.find(payload if b"\\" not in payload else strings.flat(payload).text)
        return _leak(server, found, takes_secrets) if found else None

    async def result(self, text: bytes, *, gives_secrets: bool = False) -> Scanned:
        """What a server said, as JSON text, without what mcpd holds and what looks like a secret.

        `gives_secrets`: the latter passes; held values never do, the server's own neither.
        """
        engine = self._engine
        layers = 1 if gives_secrets or len(text) > CEILING else 3
        if self.passes(text, gives_secrets=gives_secrets):
            return Scanned(text)
        text = strings.valid(text)
        if len(text) <= AT_ONCE:
            told = strings.flat(text)
            found = engine.find(told.text, layers)
        else:
            told = await _flat(text)
            found = await _found(engine, told.text, layers)
        marked = 0
        cleaned = text
        removed = [each for each in found if each.layer < 3]
        if removed:
            cleaned = await _apart(strings.redacted, text, told, removed)
        if await _may_hide(told):
            cleaned, marked = await _apart(strings.shown, cleaned)
        return Scanned(cleaned, tuple(found), marked, layers == 3 or gives_secrets)

    def json(self, text: bytes, *, given: bool = False) -> bytes:
        """The same of a message of bounded size, at once and in any thread. `given`: as `gives_secrets`."""
        return self._cleaned(text, 1 if given else 2)

    def stored(self, text: bytes) -> bytes:
        """What is kept of arguments, at once and in any thread: also without what is only called a secret, as
        no server needs the record."""
        return self._cleaned(text, 3)

    def _cleaned(self, text: bytes, layers: int) -> bytes:
        text = strings.valid(text)
        told = strings.flat(text)
        found = self._engine.find(told.text, layers)
        cleaned = strings.redacted(text, told, found) if found else text
        return strings.shown(cleaned)[0] if strings.may_hide(told) else cleaned

    def definition(self, text: bytes) -> bytes:
        """A definition as JSON text without what mcpd holds; in any thread. Whatever else it says is the
        business of pins."""
        text = strings.valid(text)
        told = strings.flat(text)
        found = self._engine.find(told.text, 1)
        return strings.redacted(text, told, found) if found else text

    def text(self, text: str) -> str:
        """Any text for people or for a record: of stderr, of a log, an error, an entry of the journal."""
        raw = text.encode("utf-8", "surrogatepass")
        found = self._engine.find(raw, 2)
        if not found:
            return text
        spans = strings.merged(found)
        return strings.blanked(raw, 0, len(raw), spans).decode("utf-8", "surrogatepass")


async def _flat(raw: bytes) -> Flat:
    parts = []
    for part in strings.parts(raw, ESCAPED if b"\\u" in raw else SLICE):
        parts.append(strings.flat(part))
        await trio.lowlevel.checkpoint()
    return Flat(b"".join(part.text for part in parts), b"".join(part.marked for part in parts))


async def _may_hide(told: Flat) -> bool:
    if len(told.text) <= AT_ONCE:
        return strings.may_hide(told)
    if told.text.isascii():
        return False
    text = told.text.decode("utf-8", "replace")
    for at in range(0, len(text), SLICE):
        if hidden.any_in(text, at, at + SLICE):
            return True
        await trio.lowlevel.checkpoint()
    return False


async def _found(engine: Engine, text: bytes, layers: int) -> list[Finding]:
    found: list[Finding] = []
    for step in engine.steps(text, layers):
        found += step
        await trio.lowlevel.checkpoint()
    return found


async def _apart(
    make: Callable[Concatenate[bytes, P], T], text: bytes, *args: P.args, **names: P.kwargs
) -> T:
    """In a thread where it takes long enough that others would wait."""
    if len(text) <= AT_ONCE:
        return make(text, *args, **names)
    return await trio.to_thread.run_sync(partial(make, text, *args, **names))


def _leak(server: str, found: Sequence[Finding], takes_secrets: bool) -> Leak | None:
    """What counts most of what arguments hold."""
    own = strings.merged([each for each in found if each.layer == 1 and server in each.servers])
    for each in found:
        if each.layer == 1 and server not in each.servers:
            whose = " and ".join(f'"{name}"' for name in sorted(each.servers)[:3])
            # No server's, so it opens mcpd itself.
            of = f"server {whose}" if whose else "mcpd"
            words = f'the arguments hold "{each.type}" of {of}, which "{server}" must not get'
            return Leak("block", words, each.type, each.form)
    outside = (each for each in found if each.layer > 1 and not strings.within(own, each.start, each.end))
    rest = sorted(outside, key=_layer)
    if not rest or (takes_secrets and rest[0].layer == 2):
        return None
    first = rest[0]
    if first.layer == 2:
        return Leak("ask", f"the arguments hold what looks like a secret ({first.type})", first.type)
    return Leak("warn", f"the arguments may hold a secret ({first.type})", first.type)


def _layer(finding: Finding) -> int:
    return finding.layer
