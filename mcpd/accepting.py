"""What a person does with definitions that wait: looking at them, and accepting what was shown (n09, n18)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import trio

from mcpd import pinning
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
from mcpd.policy import pins, poison, shadows
from mcpd.policy.review import Finding, Pin, Pins, Place, Review, definitions
from mcpd.policy.schemas import Change
from mcpd.policy.textdiff import whole_diff, word_diff
from mcpd.rows import description
from mcpd.upstream.upstream import Upstream
from mcpd.views import all_tools, catalogs

#: Entries of one listing answer (b24).
PAGE: Final = 500
#: Definitions of one answer with their differences: each may be 64 KiB, and as much again as it was.
SHOWN: Final = 50
#: Differences of one answer that are told word by word, which takes up to 27 ms each; the rest as a whole.
COMPARED: Final = 500

_ORDER: Final[Mapping[State, int]] = {"held": 0, "changed": 1, "gone": 2, "pinned": 3, "new": 4}


def waiting(broker: Broker) -> Iterator[tuple[str, int]]:
    """Servers with definitions that wait for a person, and how many."""
    for upstream in broker.fleet.all():
        review = _reviewed(broker, upstream)
        held = sum(1 for each in review.findings.values() if each.held) if review else 0
        if held:
            yield upstream.name, held


async def list_pins(broker: Broker, name: str) -> PinList:
    """Raises Failure `no_such_server`."""
    chosen = [broker.fleet.find(name)] if name else broker.fleet.all()
    shown = [each for upstream in chosen if (each := _shown(broker, upstream)) is not None]
    # A server may have 10,000.
    return await trio.to_thread.run_sync(_list_pins, shown, bool(name))


def _list_pins(shown: Iterable[_Shown], new: bool) -> PinList:
    found = [info for each in shown for info in _infos(each, new=new)]
    found.sort(key=lambda info: (_ORDER[info.state], info.server, info.kind, info.name))
    return PinList(tuple(found[:PAGE]), len(found[PAGE:]))


async def flagged(broker: Broker, name: str) -> FlaggedPins:
    """What of a server's definitions a person should know of before trusting it, whoever has seen them.

    Raises Failure `no_such_server`.
    """
    review = _reviewed(broker, broker.fleet.find(name))
    if review is None:
        return FlaggedPins((), 0)
    # One definition takes up to 40 ms.
    return await trio.to_thread.run_sync(_flagged, name, review.live, catalogs(broker.fleet))


def _flagged(name: str, catalog: Catalog, offered: Sequence[tuple[str, Catalog]]) -> FlaggedPins:
    others = all_tools(offered)
    found: list[Flagged] = []
    more = 0
    for place, live in definitions(catalog):
        flags = [*poison.hard(live), *poison.soft(live)]
        if place.kind == "tool":
            flags += shadows.find(name, place.name, description(live), others)
        if flags and len(found) < PAGE:
            found.append(Flagged(place.kind, place.name, tuple(map(_flag, flags))))
        elif flags:
            more += 1
    return FlaggedPins(tuple(found), more)


async def diff(broker: Broker, name: str, names: Iterable[str]) -> PinDiffs:
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
    server = upstream.definition
    if review is None or not isinstance(server, Server):
        return PinDiffs((), 0)
    had = broker.pins.of(server)
    shown = [(place, known[place], had.get(place), review.findings.get(place)) for place in chosen[:SHOWN]]
    # Up to a minute for what is made for that.
    diffs = await trio.to_thread.run_sync(_diffs, name, shown)
    return PinDiffs(diffs, len(chosen[SHOWN:]))


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
        what = pinning.called(place)
        if place not in known:
            raise Failure(
                "no_such_tool",
                f'server "{wanted.server}" offers no {what[:100]} any more',
                hint=f"mcpctl pins {wanted.server}",
                server=wanted.server,
            )
        if pinning.seen_as(known[place]) != each.seen:
            raise Failure(
                "refused",
                f'cannot accept {what[:100]} of server "{wanted.server}": it is not what was shown',
                hint=f"mcpctl pins diff {wanted.server}",
                server=wanted.server,
            )
        places.append(place)
    assert isinstance(server, Server)
    broker.pins.put(server, [(place, known[place]) for place in places])
    for place in places:
        digest = pins.digest(place.kind, known[place])
        pinning.record(broker, server, place, digest, "accepted", "a person has seen it", by, proof)
    broker.changes.publish("servers", server.name)
    broker.approvals.supersede(server.name)
    chosen = frozenset(places)
    shown = _shown(broker, upstream)
    assert shown is not None
    return Accepted(tuple(info for info in _infos(shown, new=True) if Place(info.kind, info.name) in chosen))


def _reviewed(broker: Broker, upstream: Upstream) -> Review | None:
    server, catalog = upstream.definition, upstream.catalog
    if not isinstance(server, Server):
        return None
    return broker.pins.review(server, catalog or Catalog(), trusted=broker.trust.trusted(server))


class _Shown(NamedTuple):
    """A server's definitions and pins, as they were at one moment."""

    server: str
    review: Review
    had: Pins
    known: bool
    """What it offers is known, so that the rest is gone."""


def _shown(broker: Broker, upstream: Upstream) -> _Shown | None:
    server, review = upstream.definition, _reviewed(broker, upstream)
    if review is None or not isinstance(server, Server):
        return None
    return _Shown(upstream.name, review, dict(broker.pins.of(server)), upstream.catalog is not None)


def _infos(shown: _Shown, *, new: bool) -> Iterator[PinInfo]:
    server, review, had, known = shown
    there = set()
    for place, _ in definitions(review.live):
        there.add(place)
        if new or place in had or place in review.findings:
            yield _info(server, place, had.get(place), review.findings.get(place))
    for place, pin in had.items():
        if place not in there and known:
            yield _info(server, place, pin, None, gone=True)


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


def _diffs(
    server: str, shown: Sequence[tuple[Place, bytes, Pin | None, Finding | None]]
) -> tuple[PinDiff, ...]:
    left = COMPARED
    made = []
    for place, live, pin, finding in shown:
        changes = finding.changes if finding else ()
        made.append(
            PinDiff(
                pin=_info(server, place, pin, finding),
                changes=tuple(_change(change, in_words=at < left) for at, change in enumerate(changes)),
                phrases=tuple(map(_flag, poison.soft(live))),
                definition=live.decode("utf-8", "replace"),
                seen=pinning.seen_as(live),
            )
        )
        left -= len(changes)
    return tuple(made)


def _change(change: Change, *, in_words: bool) -> ChangeInfo:
    pieces = word_diff(change.before, change.after) if in_words else whole_diff(change.before, change.after)
    return ChangeInfo(
        kind=change.kind,
        where=change.where,
        before=change.before,
        after=change.after,
        pieces=tuple(Piece(*piece) for piece in pieces),
    )


def _word(place: Place) -> str:
    """What a person calls a definition."""
    return place.name or place.kind
