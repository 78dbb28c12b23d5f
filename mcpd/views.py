"""What one agent may see of all catalogues: names, entries ready to send, and the row of each thing.

A view is built once per change and then only looked up (DESIGN 5: no work per call that can be
done per change). All but the tools' names is made when first asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from typing import Protocol

from mcpd.catalog import names, qualify
from mcpd.catalog.prompt import Prompt
from mcpd.catalog.tool import Catalog, Feature, Tool
from mcpd.catalog.wrappers import GET_PROMPT, READ_RESOURCE, wrappers
from mcpd.changes import Changes
from mcpd.config.spec import Agent, Config, Server
from mcpd.entries import Kind, Listed, Listing, Ready
from mcpd.policy import rules, shadows
from mcpd.policy.review import Review
from mcpd.policy.shadows import Known
from mcpd.protocol.extensions import TASKS, Extensions
from mcpd.rows import Following, Native, Offer, Row, ViewKey, Wrapper, described, may_use, withheld
from mcpd.upstream.fleet import Fleet
from mcpd.upstream.upstream import Upstream

#: Views kept for later; sessions may leave out any servers, so there is no end to the keys.
KEPT = 128

#: Keys under which these are found: a view may be that of many project roots.
KEYS = 4096

#: What a view of several servers offers, whatever they offer at the moment: servers come and go while an
#: agent is attached, and with a handshake it learns of capabilities only once.
EVERYTHING: frozenset[Feature] = frozenset(
    {"tools", "resources", "resources.subscribe", "prompts", "completions", "logging", "tasks"}
)


class Trust(Protocol):
    """Who says which servers are trusted; a change of it is one of the topic "servers"."""

    def trusted(self, server: Server) -> bool: ...


class Reviews(Protocol):
    """Who says what of a catalogue agents may see (n09); changes of it as those of trust."""

    def review(self, server: Server, catalog: Catalog, *, trusted: bool) -> Review: ...


class Rows(Mapping[str, Row]):
    """The rows of a view by name, each made when it is first asked for: of 10,000 tools few are called."""

    def __init__(
        self,
        places: Mapping[str, tuple[str, Tool]],
        offers: Mapping[str, Offer],
        key: ViewKey,
        agent: Agent,
        config: Config,
    ) -> None:
        self.places = places
        """The server and the tool that each is a row of, in the order of the listing."""
        self._offers = offers
        self._of = (key, agent, config)
        self.made: dict[str, Row] = {}
        """Those that were asked for."""
        self._names: dict[names.Pair, str] | None = None

    def of(self, server: str, tool: str) -> Row | None:
        """The row of a server's tool, whatever the agent calls it."""
        if self._names is None:
            self._names = {(place[0], place[1].name): name for name, place in self.places.items()}
        name = self._names.get((server, tool))
        return None if name is None else self[name]

    def __getitem__(self, name: str) -> Row:
        """Raises KeyError."""
        row = self.made.get(name)
        if row is None:
            server, tool = self.places[name]
            key, agent, config = self._of
            kind = Wrapper if tool.wraps else Row
            row = self.made[name] = kind(key, name, agent, self._offers[server], tool, config)
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


class View:
    """An immutable listing of all kinds, and where each thing in it is found."""

    rows: Rows
    """Each tool's row, by the name that the agent calls it."""
    warnings: tuple[str, ...]

    def __init__(
        self,
        config: Config,
        agent: Agent,
        key: ViewKey,
        offers: Mapping[str, Offer],
        numbers: Iterator[int],
        before: View | None,
        ready: Ready,
    ) -> None:
        """`before`: what was true last under this key; a listing that has not changed keeps its number."""
        self.key = key
        self.offers = offers
        self._config = config
        self._agent = agent
        self._numbers = numbers
        self._shown = before.shown() if before is not None else {}
        self._ready = ready
        self._listings: dict[Kind, Listing] = {}
        self._natives: dict[tuple[str, str, str], Row] = {}
        self._prompts: dict[str, tuple[Upstream, Prompt]] | None = None
        self._unnamed: tuple[str, ...] = ()
        """Which prompts have no name of their own (a12)."""
        if before is not None and self._offers_what(before):
            # Nothing is called another way either: most changes are about something else.
            places, self.warnings = before.rows.places, before.warnings
            self._listings = dict(before._listings)
        else:
            places, self.warnings = self._tools()
        self.rows = Rows(places, offers, key, agent, config)

    @property
    def alone(self) -> bool:
        """Whether it shows one server, with that one's own names and URIs and nothing else."""
        return bool(self.key[1])

    @property
    def ended(self) -> bool:
        """Whether it holds an instance that there is no longer."""
        return any(offer.upstream.block == "removed" for offer in self.offers.values())

    @property
    def instructions(self) -> str:
        """A single server's words pass; those of many would drown each other."""
        offer = self.offers.get(self.key[1])
        return offer.catalog.instructions if offer else ""

    @property
    def features(self) -> frozenset[Feature]:
        """What can be asked for here: of a server alone what that one offers, as far as it is known."""
        offer = self.offers.get(self.key[1])
        return offer.catalog.features if offer else EVERYTHING

    @property
    def logs(self) -> bool:
        """Whether a server is known to send log messages."""
        return any("logging" in offer.catalog.features for offer in self.offers.values())

    @property
    def extensions(self) -> Extensions:
        """What both eras' agents can have besides: of several servers what mcpd itself knows (5.17)."""
        offer = self.offers.get(self.key[1])
        return offer.catalog.extensions if offer else {TASKS: {}}

    # ---------------------------------------------------------------- listings

    def listing(self, kind: Kind) -> Listing:
        found = self._listings.get(kind)
        if found is None:
            made = self._make(kind)
            before = self._shown.get(kind)
            if before is not None and before.same_content(made):
                made.number = before.number
            found = self._listings[kind] = made
        return found

    def shown(self) -> dict[Kind, Listing]:
        """The listing of each kind that was made last, for the next view of the same key."""
        return {**self._shown, **self._listings}

    def _make(self, kind: Kind) -> Listing:
        match kind:
            case "tools":
                offers = self.offers
                entries = [
                    Listed(name, offer.upstream, tool if self.alone else _among_others(offer, tool))
                    for name, (server, tool) in self.rows.places.items()
                    if not withheld(offer := offers[server], tool)
                ]
                return Listing(entries, next(self._numbers), self._ready, self.warnings)
            case "prompts":
                prompts = [Listed(name, *found) for name, found in self.prompts.items()]
                return Listing(prompts, next(self._numbers), self._ready, self._unnamed)
            case "resources":
                return Listing([*self._resources()], next(self._numbers), self._ready)
            case "templates":
                return Listing([*self._templates()], next(self._numbers), self._ready)

    def _offers_what(self, before: View) -> bool:
        """Whether the same agent is offered the very same by the same servers."""
        return (
            before._agent == self._agent
            and list(before.offers) == list(self.offers)
            and all(
                one.upstream is other.upstream and one.review is other.review and one.review is not None
                for one, other in zip(before.offers.values(), self.offers.values(), strict=True)
            )
        )

    def _tools(self) -> tuple[Mapping[str, tuple[str, Tool]], tuple[str, ...]]:
        only = self.key[1]
        found: dict[names.Pair, tuple[str, Tool]] = {}
        for server, offer in self.offers.items():
            for tool in (*offer.catalog.tools, *(offer.review.unlisted if offer.review else ())):
                found[server, tool.name] = (server, tool)
            for tool in () if only else wrappers(offer.catalog):
                found.setdefault((server, tool.name), (server, tool))
        whole = {server for server in self.offers if rules.may_use_whole(self._agent, server)}
        allowed = [pair for pair in found if pair[0] in whole or may_use(self._agent, *pair)]
        if only:
            assigned = names.Assigned({tool: (server, tool) for server, tool in allowed})
        else:
            assigned = names.assign(allowed, self._agent.spelling)
        return {name: found[pair] for name, pair in assigned.names.items()}, assigned.warnings

    def _resources(self) -> Iterator[Listed]:
        for server, offer in self._behind(READ_RESOURCE):
            for each in offer.catalog.resources:
                uri = each.uri if self.alone else qualify.qualified(server, each.uri)
                yield Listed(uri, offer.upstream, each)

    def _templates(self) -> Iterator[Listed]:
        for server, offer in self._behind(READ_RESOURCE):
            for each in offer.catalog.templates:
                template = each.uri_template if self.alone else qualify.qualified(server, each.uri_template)
                yield Listed(template, offer.upstream, each)

    def _behind(self, gate: Tool) -> Iterator[tuple[str, Offer]]:
        """The servers of which the agent may use what `gate` stands for."""
        for server, offer in self.offers.items():
            if may_use(self._agent, server, gate.name):
                yield server, offer

    # ------------------------------------------------------------------ finding

    @property
    def prompts(self) -> dict[str, tuple[Upstream, Prompt]]:
        """Each prompt, and the server that has it, by the name that the agent calls it."""
        if self._prompts is None:
            found: dict[names.Pair, tuple[Upstream, Prompt]] = {}
            for server, offer in self._behind(GET_PROMPT):
                for prompt in offer.catalog.prompts:
                    found[server, prompt.name] = (offer.upstream, prompt)
            if self.alone:
                assigned = names.Assigned({name: (server, name) for server, name in found})
            else:
                assigned = names.assign(found, self._agent.spelling, "prompt")
            self._unnamed = assigned.warnings
            self._prompts = {name: found[pair] for name, pair in assigned.names.items()}
        return self._prompts

    def native(self, server: str, gate: Tool, method: str) -> Row | None:
        """The row of a method at a server; None where the agent may not use what `gate` stands for."""
        place = (server, gate.name, method)
        row = self._natives.get(place)
        if row is None:
            offer = self.offers.get(server)
            if offer is None or not may_use(self._agent, server, gate.name):
                return None
            name = names.export(server, gate.name, self._agent.spelling)
            row = Native(self.key, name, self._agent, offer, gate, self._config, method)
            self._natives[place] = row
        return row

    def following(self, server: str, tool: str, method: str, name: str) -> Row | None:
        """The row of a method about a task, decided as the call that made it (a01); `name`: what the agent
        called the tool then."""
        made = self.rows.get(name)
        if made is None or (made.upstream.name, made.tool.name) != (server, tool):
            made = self.rows.of(server, tool)
        if made is None or made.tool.wraps:
            return None
        place = (server, tool, method)
        row = self._natives.get(place)
        if row is None:
            offer = self.offers[server]
            row = Following(self.key, made.name, self._agent, offer, made.tool, self._config, method)
            self._natives[place] = row
        return row


class Views:
    """The cache of views, by what decides them. `changes` says when they are out of date."""

    def __init__(self, changes: Changes, trust: Trust, pins: Reviews) -> None:
        self._last = changes.last
        self._trust = trust
        self._pins = pins
        self._catalog = self._servers = self._instances = -1
        self._views: dict[ViewKey, View] = {}
        self._found: dict[ViewKey, View] = {}
        """The same by every key asked for: where no server is per project, the root decides nothing."""
        self._before: dict[ViewKey, View] = {}
        self._numbers = itertools.count(1)
        self._ready = Ready()

    def current(self, key: ViewKey) -> View | None:
        """The view, if nothing has changed since it was built."""
        last = self._last
        if last["catalog"] != self._catalog or last["servers"] != self._servers:
            return None
        if last["instances"] != self._instances:
            self._instances = last["instances"]
            self._put_aside(lambda view: view.ended)
        return self._found.get(key)

    def row(self, key: ViewKey, name: str) -> Row | None:
        """The row of a tool in the current view; None also where there is no such view."""
        view = self.current(key)
        if view is None:
            return None
        made = view.rows.made.get(name)
        return made if made is not None else view.rows.get(name)

    def holds(self, row: Row) -> bool:
        """Whether the row is still what was decided on, under the same rules (DESIGN 6)."""
        view = self.current(row.key)
        # Each view has offers of its own.
        return view is not None and view.offers.get(row.upstream.name) is row.offer

    def get(self, config: Config, fleet: Fleet, agent: Agent, key: ViewKey) -> View:
        """The view that is true now. `key` must belong to `agent`."""
        view = self.current(key)
        if view is None:
            now = (self._last["catalog"], self._last["servers"])
            if now != (self._catalog, self._servers):
                self._catalog, self._servers = now
                self._put_aside()
                self._ready.clear()
            place = key if _by_project(fleet, agent, key) else key.rootless
            view = self._views.get(place) or self._build(config, fleet, agent, place)
            if len(self._found) >= KEYS:
                self._found = {}
            self._found[key] = self._found[place] = view
        return view

    def _build(self, config: Config, fleet: Fleet, agent: Agent, key: ViewKey) -> View:
        before = self._before.pop(key, None)
        found = offers(fleet, self._trust, self._pins, agent, key)
        view = View(config, agent, key, found, self._numbers, before, self._ready)
        if len(self._views) >= KEPT:
            self._put_aside()
        self._views[key] = view
        return view

    def _put_aside(self, outdated: Callable[[View], bool] = lambda view: True) -> None:
        past = {key: view for key, view in self._views.items() if outdated(view)}
        self._before = _newest(self._before | past)
        self._views = {key: view for key, view in self._views.items() if key not in past}
        self._found = {key: view for key, view in self._found.items() if not outdated(view)}


def _newest(views: dict[ViewKey, View]) -> dict[ViewKey, View]:
    return dict(list(views.items())[-KEPT:])


def _among_others(offer: Offer, tool: Tool) -> Tool:
    """A tool as it is listed beside those of other servers."""
    if tool.task != "required" and b"U" not in tool.rest:
        # Looked for at a tenth of the cost of the whole word that `qualify_tool` looks for.
        return tool
    return qualify.qualify_tool(tool.eased(), offer.upstream.name)


def shown(fleet: Fleet, agent: Agent, key: ViewKey) -> list[Upstream]:
    """The servers that `agent` may use in this view, by their main instances and in their order."""
    _, only, without, _ = key
    return [
        main
        for main in fleet.all()
        if (not only or main.name == only)
        and main.name not in without
        and main.usable
        and rules.may_use_server(agent, main.name)
    ]


def offers(fleet: Fleet, trust: Trust, pins: Reviews, agent: Agent, key: ViewKey) -> dict[str, Offer]:
    """Those of them whose catalogue is known, by name, each by the instance that the agent uses there."""
    found: dict[str, Offer] = {}

    def others(plain: frozenset[str]) -> Mapping[str, tuple[Known, ...]]:
        return all_tools(catalogs(fleet), plain)

    for main in shown(fleet, agent, key):
        upstream = fleet.at(main, agent.name, key.root) if main.catalog is not None else main
        catalog = upstream.catalog
        if catalog is not None:
            server = upstream.definition
            if isinstance(server, Server):
                trusted = trust.trusted(server)
                review = pins.review(server, catalog, trusted=trusted)
                found[main.name] = Offer(upstream, review.catalog, trusted, upstream.verified, review, others)
    return found


def catalogs(fleet: Fleet) -> list[tuple[str, Catalog]]:
    """What all servers offer at this moment."""
    return [(main.name, main.catalog) for main in fleet.all() if main.catalog is not None]


def all_tools(
    offered: Iterable[tuple[str, Catalog]], plain: Container[str] | None = None
) -> Mapping[str, tuple[Known, ...]]:
    """The tools of all servers, whoever may use them: what looks like one of them is to be told (n18).
    `plain`: only those whose plain name is one of these."""
    return shadows.by_name(
        Known(server, tool.name, partial(described, tool))
        for server, catalog in offered
        for tool in catalog.tools
        if plain is None or shadows.plain_name(tool.name) in plain
    )


def _by_project(fleet: Fleet, agent: Agent, key: ViewKey) -> bool:
    """Whether the project root decides about the view."""
    return bool(key.root) and any(
        isinstance(main.definition, Server) and main.definition.instance == "project"
        for main in shown(fleet, agent, key)
    )
