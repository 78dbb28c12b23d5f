"""When definitions are pinned, and what a person does with those that wait (n09, n18)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
import trio
from msgspec.structs import replace

from mcpd.api.pins import (
    Accepted,
    AcceptPins,
    ChangeInfo,
    Flag,
    Flagged,
    FlaggedPins,
    Piece,
    PinDiff,
    PinDiffs,
    PinInfo,
    PinList,
    State,
)
from mcpd.broker import Broker
from mcpd.caller import Caller
from mcpd.catalog.tool import Catalog
from mcpd.config.spec import Server
from mcpd.errors import Failure
from mcpd.journal import Entry
from mcpd.policy import pins, poison, shadows
from mcpd.policy.review import Finding, Pin, Place, Review, definitions
from mcpd.policy.textdiff import word_diff
from mcpd.rows import Row
from mcpd.upstream.upstream import Upstream
from mcpd.views import all_tools

log = logging.getLogger(__name__)

#: Entries of one listing answer (b24).
PAGE: Final = 500
#: Definitions of one answer with their differences: each may be 64 KiB, and as much again as it was.
SHOWN: Final = 50

_ORDER: Final[Mapping[State, int]] = {"held": 0, "changed": 1, "gone": 2, "pinned": 3, "new": 4}


# ------------------------------------------------------------------ when


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
        _record(broker, server, place, pin.digest, "pinned", why, caller)


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


def pin_all(broker: Broker, name: str, caller: Caller | None, why: str) -> None:
    """Pin all that a server offers now and nothing keeps from agents: it is trusted from now on.

    Raises Failure `not_writable`.
    """
    upstream = broker.fleet.find(name)
    server, catalog = upstream.definition, upstream.catalog
    if isinstance(server, Server) and catalog is not None:
        review = broker.pins.review(server, catalog, trusted=broker.trust.trusted(server))
        pinned = broker.pins.put(server, _unseen(broker, server, review))
        for place, pin in pinned.items():
            _record(broker, server, place, pin.digest, "pinned", why, caller)


def _unseen(broker: Broker, server: Server, review: Review) -> list[tuple[Place, bytes]]:
    had = broker.pins.of(server)
    return [
        (place, definition)
        for place, definition in definitions(review.live)
        if place not in had and place not in review.findings
    ]


async def keep(broker: Broker) -> None:
    """Follow what servers tell: note what needs nobody, pin what is new at a trusted one, say what waits."""
    told: set[str] = set()
    with broker.changes.subscribe() as changes:
        _settle_all(broker, told)
        async for change in changes:
            if changes.lagged:
                changes.lagged = False
                _settle_all(broker, told)
            elif change.topic in ("catalog", "trust"):
                name = str(change.data)
                if any(upstream.name == name for upstream in broker.fleet.all()):
                    _settle(broker, broker.fleet.find(name), told)
                    await trio.lowlevel.checkpoint()


def _settle_all(broker: Broker, told: set[str]) -> None:
    for upstream in broker.fleet.all():
        _settle(broker, upstream, told)


def _settle(broker: Broker, upstream: Upstream, told: set[str]) -> None:
    server, catalog = upstream.definition, upstream.catalog
    if not isinstance(server, Server) or catalog is None or not upstream.verified:
        return
    trusted = broker.trust.trusted(server)
    review = broker.pins.review(server, catalog, trusted=trusted)
    changed = [each for each in review.findings.values() if each.pin is not None and not each.held]
    new = _unseen(broker, server, review) if trusted else []
    for finding in review.findings.values():
        seen = f"{server.name} {finding.place} {_seen(finding.live)}"
        if finding.held and seen not in told:
            told.add(seen)
            _tell(broker, server, finding)
    try:
        broker.pins.put(server, [(each.place, each.live) for each in changed])
        pinned = broker.pins.put(server, new)
    except Failure as failure:
        log.warning("MCP '%s': %s", server.name, failure.message)
        return
    for each in changed:
        kinds = ", ".join(pins.classes(each.changes))
        digest = pins.digest(each.place.kind, each.live)
        _record(broker, server, each.place, digest, "changed", f"{kinds}: {_places(each)}")
    for place, pin in pinned.items():
        _record(broker, server, place, pin.digest, "pinned", "new at a trusted server")


def _tell(broker: Broker, server: Server, finding: Finding) -> None:
    log.warning("MCP '%s': %s waits: %s", server.name, _called(finding.place), finding.held)
    words = f"{finding.held}: {_places(finding)}" if finding.changes else finding.held
    digest = pins.digest(finding.place.kind, finding.live)
    _record(broker, server, finding.place, digest, "held", words)


def _places(finding: Finding) -> str:
    return ", ".join(change.where or finding.place.kind for change in finding.changes[:10])


def _called(place: Place) -> str:
    return f'{place.kind} "{place.name}"' if place.name else place.kind


def _record(
    broker: Broker,
    server: Server,
    place: Place,
    digest: str,
    outcome: str,
    because: str,
    caller: Caller | None = None,
    proof: str = "",
) -> None:
    broker.journal.record(
        Entry(
            kind="pin",
            session=caller.session if caller else "",
            agent=caller.agent if caller else "",
            pid=caller.pid if caller else 0,
            exe=caller.exe if caller else "",
            server=server.name,
            tool=place.name or place.kind,
            method=place.kind,
            because=because,
            outcome=outcome,
            destination=server.destination,
            pin=digest,
            proof=proof,
        )
    )


# ------------------------------------------------------------------ what waits


def waiting(broker: Broker) -> Iterator[tuple[str, int]]:
    """Servers with definitions that wait for a person, and how many."""
    for upstream in broker.fleet.all():
        review = _reviewed(broker, upstream)
        held = sum(1 for each in review.findings.values() if each.held) if review else 0
        if held:
            yield upstream.name, held


def list_pins(broker: Broker, name: str) -> PinList:
    """Raises Failure `no_such_server`."""
    chosen = [broker.fleet.find(name)] if name else broker.fleet.all()
    found = [info for upstream in chosen for info in _infos(broker, upstream, new=bool(name))]
    found.sort(key=lambda info: (_ORDER[info.state], info.server, info.kind, info.name))
    return PinList(tuple(found[:PAGE]), len(found[PAGE:]))


async def flagged(broker: Broker, name: str) -> FlaggedPins:
    """What of a server's definitions a person should know of before trusting it, whoever has seen them.

    Raises Failure `no_such_server`.
    """
    review = _reviewed(broker, broker.fleet.find(name))
    others = all_tools(broker.fleet)
    found: list[Flagged] = []
    more = 0
    for number, (place, live) in enumerate(definitions(review.live) if review else ()):
        if number % _AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
        flags = [*poison.hard(live), *poison.soft(live)]
        if place.kind == "tool":
            said = msgspec.json.decode(live, type=_Described).description
            flags += shadows.find(name, place.name, said, others)
        if flags and len(found) < PAGE:
            found.append(Flagged(place.kind, place.name, tuple(map(_flag, flags))))
        elif flags:
            more += 1
    return FlaggedPins(tuple(found), more)


class _Described(msgspec.Struct):
    description: str = ""


#: Definitions looked at before others have a turn: about 2 ms.
_AT_ONCE: Final = 16


def diff(broker: Broker, name: str, names: Iterable[str]) -> PinDiffs:
    """What waits of a server, or those of its definitions that are named, beside what was seen of them.

    Raises Failure `no_such_server`, `no_such_tool`.
    """
    upstream = broker.fleet.find(name)
    review = _reviewed(broker, upstream)
    wanted = frozenset(names)
    known = dict(definitions(review.live)) if review else {}
    missing = wanted - {_word(place) for place in known}
    if missing:
        raise Failure(
            "no_such_tool",
            f'server "{name}" offers nothing that is named "{min(missing)[:60]}"',
            hint=f"mcpctl pins {name}",
            server=name,
        )
    if wanted:
        chosen = [place for place in known if _word(place) in wanted]
    else:
        chosen = [place for place, each in review.findings.items() if each.held] if review else []
    diffs = [_diff(broker, upstream, review, place, known[place]) for place in chosen[:SHOWN] if review]
    return PinDiffs(tuple(diffs), len(chosen[SHOWN:]))


def accept(broker: Broker, by: Caller, wanted: AcceptPins, proof: str = "") -> Accepted:
    """Let definitions count as they were shown; all or none.

    Raises Failure `no_such_server`, `no_such_tool`, `not_writable`, and `refused` for what is another now.
    """
    upstream = broker.fleet.find(wanted.server)
    review = _reviewed(broker, upstream)
    server = upstream.definition
    known = dict(definitions(review.live)) if review else {}
    places = []
    for each in wanted.definitions:
        place = Place(each.kind, each.name)
        if place not in known:
            raise Failure(
                "no_such_tool",
                f'server "{wanted.server}" offers no {_called(place)[:100]} any more',
                hint=f"mcpctl pins {wanted.server}",
                server=wanted.server,
            )
        if _seen(known[place]) != each.seen:
            raise Failure(
                "refused",
                f'cannot accept {_called(place)[:100]} of server "{wanted.server}": it is not what was shown',
                hint=f"mcpctl pins diff {wanted.server}",
                server=wanted.server,
            )
        places.append(place)
    assert isinstance(server, Server)
    broker.pins.put(server, [(place, known[place]) for place in places])
    for place in places:
        digest = pins.digest(place.kind, known[place])
        _record(broker, server, place, digest, "accepted", "a person has seen it", by, proof)
    broker.changes.publish("servers", server.name)
    broker.approvals.supersede(server.name)
    chosen = frozenset(places)
    return Accepted(
        tuple(info for info in _infos(broker, upstream, new=True) if Place(info.kind, info.name) in chosen)
    )


def _reviewed(broker: Broker, upstream: Upstream) -> Review | None:
    server, catalog = upstream.definition, upstream.catalog
    if not isinstance(server, Server):
        return None
    return broker.pins.review(server, catalog or Catalog(), trusted=broker.trust.trusted(server))


def _infos(broker: Broker, upstream: Upstream, *, new: bool) -> Iterator[PinInfo]:
    server, review = upstream.definition, _reviewed(broker, upstream)
    if review is None or not isinstance(server, Server):
        return
    had = broker.pins.of(server)
    there = set()
    for place, _ in definitions(review.live):
        there.add(place)
        if new or place in had or place in review.findings:
            yield _info(upstream.name, place, had.get(place), review.findings.get(place))
    for place, pin in had.items():
        if place not in there and upstream.catalog is not None:
            yield _info(upstream.name, place, pin, None, gone=True)


def _info(
    server: str, place: Place, pin: Pin | None, finding: Finding | None, *, gone: bool = False
) -> PinInfo:
    state: State = "pinned" if pin is not None else "new"
    if gone:
        state = "gone"
    elif finding is not None:
        state = "held" if finding.held else "changed"
    return PinInfo(
        server=server,
        kind=place.kind,
        name=place.name,
        state=state,
        classes=pins.classes(finding.changes) if finding else (),
        why=finding.held if finding else "",
        usable=not gone and (finding is None or finding.listed),
        pinned_at=pin.pinned_at if pin else 0.0,
        flags=tuple(map(_flag, finding.flags)) if finding else (),
    )


def _flag(flag: poison.Flag) -> Flag:
    return Flag(flag.code, flag.hard, flag.where, flag.words)


def _diff(broker: Broker, upstream: Upstream, review: Review, place: Place, live: bytes) -> PinDiff:
    server = upstream.definition
    assert isinstance(server, Server)
    finding, pin = review.findings.get(place), broker.pins.of(server).get(place)
    return PinDiff(
        pin=_info(upstream.name, place, pin, finding),
        changes=tuple(
            ChangeInfo(
                kind=change.kind,
                where=change.where,
                before=change.before,
                after=change.after,
                pieces=tuple(Piece(*piece) for piece in word_diff(change.before, change.after)),
            )
            for change in (finding.changes if finding else ())
        ),
        phrases=tuple(map(_flag, poison.soft(live))),
        definition=live.decode("utf-8", "replace"),
        seen=_seen(live),
    )


def _seen(live: bytes) -> str:
    """A definition in full, also what no pin looks at."""
    return hashlib.sha256(live).hexdigest()[:32]


def _word(place: Place) -> str:
    """What a person calls a definition."""
    return place.name or place.kind
