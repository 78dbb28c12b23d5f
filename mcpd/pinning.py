"""When definitions are pinned, and that it is told which of them wait for a person (n09, n18)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence, Sized
from itertools import islice
from typing import Final

import trio
from msgspec.structs import replace

from mcpd.broker import Broker
from mcpd.caller import NOBODY, Caller
from mcpd.catalog.tool import Catalog
from mcpd.config.spec import Server
from mcpd.errors import Failure
from mcpd.journal import About, Entry
from mcpd.policy import pins
from mcpd.policy.review import Finding, Place, Review, definitions
from mcpd.rows import Row
from mcpd.upstream.upstream import Upstream

log = logging.getLogger(__name__)


def saw(broker: Broker, caller: Caller, why: str, *rows: Row) -> None:
    """A person has said yes to a request of this row, or given a grant for these of one server: their
    definitions are pinned as they were decided on, with the server's instructions, unless they are already.

    Where that cannot be kept they are pinned next time; meanwhile every call is asked for as before.
    """
    rows = tuple(row for row in rows if not (row.seen or row.held))
    server = rows[0].upstream.definition if rows else None
    if not isinstance(server, Server):
        return
    had = broker.pins.of(server)
    new: dict[Place, bytes] = {}
    for row in rows:
        row.seen = True
        new.update(each for each in _meant(row) if each[0] not in had)
    if not new:
        return
    try:
        pinned = broker.pins.put(server, new.items())
    except Failure as failure:
        log.warning("MCP '%s': %s", server.name, failure.message)
        return
    for place, pin in pinned.items():
        record(broker, server, place, pin.digest, "pinned", why, caller)


def _meant(row: Row) -> Iterator[tuple[Place, bytes]]:
    """What a request of the row shows of the server: a tool, or what its wrapper stands for."""
    offered = Catalog(instructions=row.offered.instructions)
    match row.tool.wraps:
        case "":
            offered = replace(offered, tools=(row.tool,))
        case "resources/read":
            offered = replace(offered, templates=row.offered.templates)
        case "prompts/get":
            offered = replace(offered, prompts=row.offered.prompts)
    yield from definitions(offered)


async def pin_all(broker: Broker, server: Server, catalog: Catalog, why: str) -> None:
    """Pin all that a server offers and nothing keeps from agents, some at a time: it is to be trusted.

    Whatever the server says meanwhile, this is what a person meant. Raises Failure `not_writable`.
    """
    await broker.pins.examine(server, catalog, trusted=True)
    unseen = _unseen(broker, server, broker.pins.review(server, catalog, trusted=True))
    for at in range(0, len(unseen), _AT_ONCE):
        await trio.lowlevel.checkpoint()
        had = broker.pins.of(server)
        # What a person has accepted meanwhile stays.
        pinned = broker.pins.put(server, [each for each in unseen[at : at + _AT_ONCE] if each[0] not in had])
        for place, pin in pinned.items():
            record(broker, server, place, pin.digest, "pinned", why)
    await broker.pins.examine(server, catalog, trusted=True)


#: Definitions that are pinned before others have a turn: 5 ms.
_AT_ONCE: Final = 100


def _unseen(broker: Broker, server: Server, review: Review) -> list[tuple[Place, bytes]]:
    had = broker.pins.of(server)
    return [
        (place, definition)
        for place, definition in definitions(review.live, had)
        if place not in review.findings
    ]


async def examine(broker: Broker, server: Server, catalog: Catalog) -> None:
    """Compare a catalogue with what is pinned before anybody sees it: 10,000 definitions take a second."""
    await broker.pins.examine(server, catalog, trusted=broker.trust.trusted(server))


async def keep(broker: Broker) -> None:
    """Follow what servers tell: note what needs nobody, pin what is new at a trusted one, say what waits."""
    told: Told = {}
    with broker.changes.subscribe() as changes:
        await _settle_all(broker, told)
        async for change in changes:
            if changes.lagged:
                changes.lagged = False
                await _settle_all(broker, told)
            elif change.topic in ("catalog", "trust"):
                name = str(change.data)
                if any(upstream.name == name for upstream in broker.fleet.all()):
                    await _settle(broker, broker.fleet.find(name), told)


async def _settle_all(broker: Broker, told: Told) -> None:
    for upstream in broker.fleet.all():
        await _settle(broker, upstream, told)


Told = dict[str, frozenset[tuple[Place, int]]]
"""What waits of each server, as it was told last."""


async def _settle(broker: Broker, upstream: Upstream, told: Told) -> None:
    await trio.lowlevel.checkpoint()
    server, catalog = upstream.definition, upstream.catalog
    if not isinstance(server, Server) or catalog is None:
        return
    # One that comes from the cache has not been compared before it was there.
    await examine(broker, server, catalog)
    if not upstream.verified or (upstream.definition, upstream.catalog) != (server, catalog):
        return
    trusted = broker.trust.trusted(server)
    review = broker.pins.review(server, catalog, trusted=trusted)
    changed = [each for each in review.findings.values() if each.pin is not None and not each.held]
    new = _unseen(broker, server, review) if trusted else []
    held = {_seen(each): each for each in review.findings.values() if each.held}
    if len(held) > _AT_ONCE:
        await trio.lowlevel.checkpoint()
    before = told.get(server.name, frozenset())
    told[server.name] = frozenset(held)
    _tell(broker, server, [each for seen, each in held.items() if seen not in before])
    try:
        await broker.pins.follow(server, [(each.place, each.live) for each in changed])
        pinned = await broker.pins.follow(server, new)
    except Failure as failure:
        log.warning("MCP '%s': %s", server.name, failure.message)
        return
    for each in changed[:_SAID]:
        kinds = ", ".join(pins.classes(each.changes))
        digest = pins.digest(each.place.kind, each.live)
        record(broker, server, each.place, digest, "changed", f"{kinds}: {_places(each)}")
    _record_more(broker, server, "changed", changed)
    for place, pin in islice(pinned.items(), _SAID):
        record(broker, server, place, pin.digest, "pinned", "new at a trusted server")
    _record_more(broker, server, "pinned", pinned)


#: Definitions of one listing that are told one by one: a server may send 10,000 others every second.
_SAID: Final = 50


def _seen(finding: Finding) -> tuple[Place, int]:
    # What is told again costs a line of the log; 10,000 digests would cost others 30 ms.
    return finding.place, hash(finding.live)


def _tell(broker: Broker, server: Server, findings: Sequence[Finding]) -> None:
    for finding in findings[:_SAID]:
        log.warning("MCP '%s': %s waits: %s", server.name, called(finding.place), finding.held)
        words = f"{finding.held}: {_places(finding)}" if finding.changes else finding.held
        digest = pins.digest(finding.place.kind, finding.live)
        record(broker, server, finding.place, digest, "held", words)
    _record_more(broker, server, "held", findings)
    if more := len(findings[_SAID:]):
        log.warning("MCP '%s': and %d more definitions wait", server.name, more)


def _record_more(broker: Broker, server: Server, outcome: str, found: Sized) -> None:
    if (more := len(found) - _SAID) > 0:
        record(broker, server, _OTHERS, "", outcome, f"and {more:,} more definitions at the same time")


_OTHERS: Final = Place("tool", "*")


def _places(finding: Finding) -> str:
    return ", ".join(change.where or finding.place.kind for change in finding.changes[:10])


def called(place: Place) -> str:
    """A definition in words."""
    return f'{place.kind} "{place.name}"' if place.name else place.kind


def record(
    broker: Broker,
    server: Server,
    place: Place,
    digest: str,
    outcome: str,
    because: str,
    by: Caller = NOBODY,
    proof: str = "",
) -> None:
    """Note in the journal what became of a definition, and by whom."""
    broker.journal.record(
        Entry(
            kind="pin",
            caller=by,
            about=About(
                server=server.name,
                tool=place.name or place.kind,
                method=place.kind,
                destination=server.destination,
                pin=digest,
            ),
            because=because,
            outcome=outcome,
            proof=proof,
        )
    )


def seen_as(live: bytes) -> str:
    """The name of a definition in full, also of what no pin looks at."""
    return hashlib.sha256(live).hexdigest()[:32]
