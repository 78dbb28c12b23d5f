"""What one agent may see of all catalogues: names, entries ready to send, and the ruling of each tool.

A view is built once per change and then only looked up (DESIGN 5: no work per call that can be
done per change). Entries and rulings are made when first asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from mcpd.catalog import names
from mcpd.catalog.tool import Tool
from mcpd.changes import Changes
from mcpd.config.spec import Agent, Config, Server
from mcpd.policy import rules
from mcpd.policy.decide import Decision, decide
from mcpd.policy.rules import Ruling
from mcpd.protocol.jsonrpc import quoted
from mcpd.upstream.upstream import Upstream

#: Entries of one listing answer (b24).
PAGE = 500

#: Views kept for later; sessions may leave out any servers, so there is no end to the keys.
KEPT = 128


class Row:
    """One tool as one agent sees it."""

    __slots__ = (
        "_because",
        "_config",
        "_decision",
        "_ruling",
        "_spellings",
        "head",
        "key",
        "name",
        "tool",
        "upstream",
    )

    def __init__(
        self,
        key: ViewKey,
        name: str,
        spellings: tuple[str, ...],
        upstream: Upstream,
        tool: Tool,
        config: Config,
    ) -> None:
        self.key = key
        """The view it stands in."""
        self.name = name
        """What the agent calls it."""
        self._spellings = spellings
        self.upstream = upstream
        self.tool = tool
        self.head = b'"name":' + quoted(tool.name) + b',"arguments":'
        """The beginning of a call's params, under the server's own name."""
        self._config = config
        self._because = ""
        self._ruling: Ruling | None = None
        self._decision: Decision | None = None

    def may_replay(self, reached: bool) -> bool:
        """Whether a call that met the end of its connection is sent once more (D3)."""
        server = self.upstream.definition
        replay = server.replay if isinstance(server, Server) else "never"
        return rules.may_replay(replay, reached, self.tool.annotations, trusted=False)

    @property
    def ruling(self) -> Ruling:
        if self._ruling is None:
            server = self.upstream.definition
            assert isinstance(server, Server)
            self._ruling = rules.resolve(
                server.name,
                self.tool,
                self._spellings,
                server.policy,
                self._config.tool_policies,
                self._config.settings,
                trusted=False,
            )
        return self._ruling

    @property
    def because(self) -> str:
        """The deciding rules in one line, for the journal."""
        if not self._because:
            self._because = "; ".join(self.ruling.because)[:2000]
        return self._because

    @property
    def decision(self) -> Decision:
        if self._decision is None:
            self._decision = decide(self.ruling, self.upstream.name, self.tool.name)
        return self._decision


class View:
    """An immutable listing. `number` differs from that of every view with other content."""

    def __init__(
        self, rows: dict[str, Row], warnings: tuple[str, ...], instructions: str, number: int
    ) -> None:
        self.rows = rows
        self.warnings = warnings
        self.instructions = instructions
        self.number = number
        self._order = list(rows.values())
        self._pages: dict[tuple[int, bool], bytes] = {}

    def __len__(self) -> int:
        return len(self._order)

    def page(self, start: int, stateless: bool) -> tuple[bytes, int | None]:
        """The entries from `start` on, joined as JSON text, and where the next page starts."""
        text = self._pages.get((start, stateless))
        end = start + PAGE
        if text is None:
            rows = self._order[start:end]
            text = b",".join([row.tool.entry(row.name, stateless=stateless) for row in rows])
            self._pages[start, stateless] = text
        return text, end if end < len(self._order) else None

    def renumbered(self, number: int) -> View:
        return View(self.rows, self.warnings, self.instructions, number)

    def same_content(self, other: View) -> bool:
        """Whether an agent could not tell the two apart."""
        if len(self._order) != len(other._order):
            return False
        pairs = zip(self._order, other._order, strict=True)
        return all(a.name == b.name and (a.tool is b.tool or a.tool == b.tool) for a, b in pairs)


class Views:
    """The cache of views, by what decides them. `changes` says when they are out of date."""

    def __init__(self, changes: Changes) -> None:
        self._last = changes.last
        self._catalog = self._servers = -1
        self._views: dict[ViewKey, View] = {}
        self._before: dict[ViewKey, View] = {}
        self._numbers = itertools.count(1)

    def current(self, key: ViewKey) -> View | None:
        """The view, if nothing has changed since it was built."""
        last = self._last
        if last["catalog"] != self._catalog or last["servers"] != self._servers:
            return None
        return self._views.get(key)

    def get(self, config: Config, upstreams: Iterable[Upstream], agent: Agent, key: ViewKey) -> View:
        """The view that is true now. `key` must belong to `agent`."""
        last = self._last
        if last["catalog"] != self._catalog or last["servers"] != self._servers:
            self._catalog, self._servers = last["catalog"], last["servers"]
            self._before = _newest(self._before | self._views)
            self._views = {}
        view = self._views.get(key)
        if view is None:
            view = build(config, upstreams, agent, key, next(self._numbers))
            before = self._before.pop(key, None)
            if before is not None and before.same_content(view):
                view = view.renumbered(before.number)
            if len(self._views) >= KEPT:
                self._before = _newest(self._before | self._views)
                self._views = {}
            self._views[key] = view
        return view


def _newest(views: dict[ViewKey, View]) -> dict[ViewKey, View]:
    return dict(list(views.items())[-KEPT:])


class ViewKey(tuple[str, str, frozenset[str]]):
    """(agent, the one server shown with its own names or "", servers left out)."""

    __slots__ = ()


def build(config: Config, upstreams: Iterable[Upstream], agent: Agent, key: ViewKey, number: int) -> View:
    """Everything `agent` may use of what the given upstreams offer, in their order."""
    _, only, without = key
    found: dict[names.Pair, tuple[Upstream, Tool]] = {}
    instructions = ""
    for upstream in upstreams:
        if (only and upstream.name != only) or upstream.name in without or not upstream.usable:
            continue
        catalog = upstream.catalog
        if catalog is None or not rules.may_use_server(agent, upstream.name):
            continue
        if only:
            instructions = catalog.instructions
        for tool in catalog.tools:
            if may_use(agent, upstream.name, tool.name):
                found[upstream.name, tool.name] = (upstream, tool)
    if only:
        assigned = names.Assigned({tool: (server, tool) for server, tool in found})
    else:
        assigned = names.assign(found, agent.spelling)
    rows = {
        name: Row(key, name, _spellings(agent, pair, name, only), *found[pair], config)
        for name, pair in assigned.names.items()
    }
    return View(rows, assigned.warnings, instructions, number)


def _spellings(agent: Agent, pair: names.Pair, name: str, only: str) -> tuple[str, ...]:
    """The names by which a policy's pattern may mean a tool (a26).

    A tool's bare name is none of them: a server could call its tool like another server's.
    """
    usual = (names.original(*pair), names.export(*pair), *_marked(agent, pair))
    return usual if only else (*usual, name)


def _marked(agent: Agent, pair: names.Pair) -> tuple[str, ...]:
    """The name that the tool has where it would be ambiguous; also in views in which it is not, since what
    is denied by the name in one listing must not be there in another."""
    return (names.export_marked(*pair, agent.spelling),) if agent.spelling == "mcp_server_tool" else ()


def may_use(agent: Agent, server: str, tool: str) -> bool:
    """Patterns are tried on the original and on the exported spellings (a26, a29)."""
    if agent.allowed_tools is None and not agent.denied_tools:
        return True
    pair = (server, tool)
    spellings = (names.original(*pair), names.export(*pair, agent.spelling), *_marked(agent, pair))
    return rules.may_use(agent, spellings)
