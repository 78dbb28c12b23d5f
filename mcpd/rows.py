"""What an agent can request of one server, each thing a row: its tools, wrapper tools, native methods.

A row has what the one path of a request asks (`calls`): the policy that counts, what is sent to the
server, how the answer is bounded. Rulings are made when first asked for and kept as long as the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec

from mcpd.catalog import content, names, native, readout, wrappers
from mcpd.catalog.content import Bounded
from mcpd.catalog.qualify import qualify_content
from mcpd.catalog.tool import Catalog, Tool
from mcpd.config.spec import Agent, Config, Server
from mcpd.errors import Failure
from mcpd.journal import About
from mcpd.policy import pins, poison, rules, shadows
from mcpd.policy.decide import Allow, Ask, Decision, Facts, decide
from mcpd.policy.review import Place, Review
from mcpd.policy.rules import Ruling
from mcpd.policy.shadows import Known
from mcpd.protocol.jsonrpc import check_arguments, quoted
from mcpd.upstream.upstream import Upstream


class ViewKey(tuple[str, str, frozenset[str], str]):
    """(agent, the one server shown with its own names or "", servers left out, project root or "")."""

    __slots__ = ()

    @property
    def only(self) -> str:
        return self[1]

    @property
    def without(self) -> frozenset[str]:
        return self[2]

    @property
    def root(self) -> str:
        return self[3]

    @property
    def rootless(self) -> ViewKey:
        """The same wherever the agent works."""
        return ViewKey((*self[:3], "")) if self[3] else self


class Offer(NamedTuple):
    """A server that an agent may use, as it was when the view was built."""

    upstream: Upstream
    catalog: Catalog
    trusted: bool = False
    """A person has said that its annotations may be believed (b12)."""
    verified: bool = True
    """It has told this catalogue itself; else it is from the cache, which lowers no risk."""
    review: Review | None = None
    """The catalogue beside what people have seen of it (n09)."""
    others: Callable[[frozenset[str]], Mapping[str, tuple[Known, ...]]] = lambda plain: {}
    """The tools of all servers that have one of these plain names (n18)."""


def withheld(offer: Offer, tool: Tool) -> str:
    """Why the definition of a tool waits for a person, so that it is not listed; empty where it does not."""
    review = offer.review
    return review.barred.get(tool.name, "") if review is not None and not tool.wraps else ""


class Row:
    """A server's own tool, as one agent sees it."""

    def __init__(
        self, key: ViewKey, name: str, agent: Agent, offer: Offer, tool: Tool, config: Config
    ) -> None:
        self.key = key
        """The view it stands in."""
        self.name = name
        """What the agent calls it."""
        self.agent = agent
        self.upstream = upstream = offer.upstream
        review = offer.review
        known = offer.verified or (review is not None and tool.name in review.pinned)
        self.trusted = offer.trusted and known
        """What the server says of the tool, or a person has seen that it says, may lower its risk (D4)."""
        self.unverified = offer.trusted and not known
        """It could, once the server has said so itself."""
        self.tool = tool
        """What policy decides about: of a native method the tool that stands for it (a01)."""
        self.method = tool.wraps or "tools/call"
        """What the server is asked."""
        self.local = False
        """It is answered from the catalogue; the server is not asked."""
        self.held = withheld(offer, tool)
        """Why its definition waits for a person, and nothing can be called meanwhile (n09, n18)."""
        self.prefix = "" if key[1] else upstream.name
        """The server's name where URIs bear it, in views of several servers."""
        self.head = b'"name":' + quoted(tool.name) + b',"arguments":'
        """The beginning of a call's params, under the server's own name."""
        self.seen = False
        """Its definition was pinned, or was before, when a person said yes to a request of it."""
        self.offer = offer
        """Its server, as it was when the view was built."""
        self._config = config

    @property
    def asks(self) -> bool:
        """Where its policy wants that, a person is asked before the server is."""
        return True

    def checked(self, payload: bytes) -> bytes:
        """A call's arguments, when they have one meaning (b29). Raises Failure `invalid_params`."""
        if payload in (b"", b"null"):
            # Some clients write an absent map as null (Go's nil); no tool can mean anything else by it.
            return b"{}"
        check_arguments(payload)
        return payload

    def members(self, payload: bytes) -> bytes:
        """Params for the server, without braces; `payload` is what `checked` gave."""
        return self.head + payload

    def arguments(self, payload: bytes) -> bytes:
        """What policy reads, and a person is shown, of what the server is asked: a JSON object."""
        return payload

    def bound(self, result: bytes, payload: bytes, cap: int) -> Bounded:
        """The server's result as the agent gets it (a18). Raises Failure `bad_answer`."""
        bounded = content.bound(result, cap)
        return qualify_content(bounded, self.prefix) if self.prefix else bounded

    def may_replay(self, reached: bool) -> bool:
        """Whether a request that met the end of its connection is sent once more (D3)."""
        server = self.upstream.definition
        replay = server.replay if isinstance(server, Server) else "never"
        return rules.may_replay(replay, reached, self.tool.annotations, trusted=self.trusted)

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which a pattern means it (a26), whatever the view.

        A tool's bare name is none of them: a server could call its tool like another server's.
        """
        pair, spelling = (self.upstream.name, self.tool.name), self.agent.spelling
        sure = (names.original(*pair), names.export(*pair), *_marked(self.agent, pair))
        if spelling == "server__tool" or self.doubtful:
            return sure
        return (*sure, names.export(*pair, spelling))

    @property
    def doubtful(self) -> str:
        """The name in its agent's spelling, where a tool of another server could have that as well (D2)."""
        spelling, server = self.agent.spelling, self.upstream.name
        if spelling == "server__tool":
            return ""
        name = names.export(server, self.tool.name, spelling)
        others = (names.prefix(other, spelling) for other in self._config.servers if other != server)
        return name if any(name.startswith(head) for head in others) else ""

    @cached_property
    def destination(self) -> str:
        """Under which consent to its server is filed (n24)."""
        server = self.upstream.definition
        assert isinstance(server, Server)
        return server.destination

    @cached_property
    def pin(self) -> str:
        """The digest of the definition that is decided on (n09)."""
        return pins.digest("tool", self.tool.entry(self.tool.name, stateless=True))

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """What a person should know of its definition, in words (n18)."""
        return () if self.tool.wraps else tuple(self._looked_at())

    def _looked_at(self) -> Iterator[str]:
        review, name = self.offer.review, self.tool.name
        finding = review.findings.get(Place("tool", name)) if review is not None else None
        if finding is not None and finding.held and finding.listed:
            yield f"{finding.held}; this call is for what was approved: mcpctl pins diff {self.upstream.name}"
        others = self.offer.others(shadows.looked_for(name, self.description))
        for flag in (
            *poison.soft(self.tool.entry(name, stateless=True)),
            *shadows.find(self.upstream.name, name, self.description, others),
        ):
            yield flag.said

    @property
    def offered(self) -> Catalog:
        """All that its server offers to agents."""
        return self.offer.catalog

    @property
    def description(self) -> str:
        """What the server says of it: untrusted (b25)."""
        return described(self.tool)

    @property
    def subject(self) -> rules.Subject:
        """What is ruled about."""
        server = self.upstream.definition
        assert isinstance(server, Server)
        return rules.Subject(
            server.name,
            self.tool,
            self.names,
            server.policy,
            self._config.tool_policies,
            self._config.settings,
            self.doubtful,
        )

    @cached_property
    def ruling(self) -> Ruling:
        return rules.resolve(self.subject, trusted=self.trusted)

    @cached_property
    def facts(self) -> Facts:
        """What is known before the arguments are: no grant, no answer, no leak."""
        return Facts(
            ruling=self.ruling,
            agent=self.agent,
            server=self.upstream.name,
            tool=self.tool.name,
            names=self.names,
            held=self.held,
        )

    @cached_property
    def decision(self) -> Decision:
        """What is decided before the arguments are known."""
        return self.decided(self.facts)

    @cached_property
    def free(self) -> bool:
        """Whether it is allowed as it stands, and need not be written down first (n12)."""
        return isinstance(self.decision, Allow) and (self.local or self.ruling.risk != "high")

    def decided(self, facts: Facts) -> Decision:
        """The decision, `facts` being its own with more known."""
        return decide(facts)

    @cached_property
    def because(self) -> str:
        """The rules of the decision in one line, for the journal."""
        return chain(self.decision.because)

    @cached_property
    def about(self) -> About:
        """What it stands for, for the journal (n12)."""
        return About(
            server=self.upstream.name,
            tool=self.tool.name,
            method=self.method,
            destination=self.destination,
            risk=self.ruling.risk,
            rule=self.ruling.approval,
            pin=self.pin,
        )


class Wrapper(Row):
    """A tool of mcpd's own that stands for resources or prompts of a server (a10)."""

    def __init__(
        self, key: ViewKey, name: str, agent: Agent, offer: Offer, tool: Tool, config: Config
    ) -> None:
        super().__init__(key, name, agent, offer, tool, config)
        self.local = self.method.endswith("/list")

    def decided(self, facts: Facts) -> Decision:
        return _unasked(decide(facts), "it is answered from the catalogue") if self.local else decide(facts)

    def checked(self, payload: bytes) -> bytes:
        payload = super().checked(payload)
        if self.local:
            wrappers.check_listing(payload)
        return payload

    def members(self, payload: bytes) -> bytes:
        """Raises Failure `invalid_params`, and `denied` for a prompt that waits for a person (n18)."""
        server = self.upstream.name
        if self.method == "resources/read":
            return wrappers.read_request(payload, server)[1]
        review = self.offer.review
        prompts = (self.offered if review is None else review.live).prompts
        name, members = wrappers.prompt_request(payload, server, prompts, self.agent.spelling)
        _refuse_held(self.offer, name)
        return members

    def arguments(self, payload: bytes) -> bytes:
        """The same as of the method that it stands for, so that a yes is one for both ways (a01)."""
        return payload if self.local else b"{" + self.members(payload) + b"}"

    def bound(self, result: bytes, payload: bytes, cap: int) -> Bounded:
        match self.method:
            case "resources/list":
                return readout.render_text(wrappers.resources_text(self.offered, self.prefix), cap)
            case "prompts/list":
                return readout.render_text(wrappers.prompts_text(self.offered), cap)
            case "resources/read":
                return readout.render_read(result, cap)
            case _:
                return readout.render_prompt(result, cap)


class Native(Row):
    """Another method than tools/call at one server, decided as the wrapper that stands for it (a01)."""

    def __init__(
        self,
        key: ViewKey,
        name: str,
        agent: Agent,
        offer: Offer,
        gate: Tool,
        config: Config,
        method: str,
    ) -> None:
        super().__init__(key, name, agent, offer, gate, config)
        self.method = method

    @property
    def asks(self) -> bool:
        """Nobody is asked about every key that is typed, nor about news."""
        return self.method not in ("completion/complete", "subscriptions/listen")

    def checked(self, payload: bytes) -> bytes:
        """`payload`: the params, without braces, under the server's own names."""
        return payload

    def members(self, payload: bytes) -> bytes:
        """Raises Failure `denied` for a prompt that waits for a person by now (n18)."""
        if self.method == "prompts/get":
            _refuse_held(self.offer, msgspec.json.decode(b"{" + payload + b"}", type=_Named).name)
        return payload

    def arguments(self, payload: bytes) -> bytes:
        return b"{" + payload + b"}"

    def bound(self, result: bytes, payload: bytes, cap: int) -> Bounded:
        return native.bound(self.method, result, payload, cap, self.prefix)


class Following(Native):
    """A method about a task, decided as the call that made it (a01)."""

    def decided(self, facts: Facts) -> Decision:
        return _unasked(decide(facts), "the call that made the task was")

    def may_replay(self, reached: bool) -> bool:
        """Never by a server's next process, which may give the task's id to another (n03)."""
        return not self.upstream.forgets and super().may_replay(reached)


class _Named(msgspec.Struct):
    name: str


def _refuse_held(offer: Offer, prompt: str) -> None:
    """Raises Failure `denied` for a prompt, by the server's own name, that waits for a person and is not
    listed meanwhile."""
    finding = offer.review.findings.get(Place("prompt", prompt)) if offer.review is not None else None
    if finding is None or not finding.held or any(each.name == prompt for each in offer.catalog.prompts):
        return
    server = offer.upstream.name
    message = f'denied: prompt "{prompt[:200]}" of server "{server}" is held: {finding.held}'
    raise Failure("denied", message, hint=f"mcpctl pins diff {server}", server=server)


def chain(because: tuple[str, ...]) -> str:
    """The rules of a decision in one line, for the journal."""
    return "; ".join(because)


def _unasked(decision: Decision, why: str) -> Decision:
    """The same where nobody needs to be asked, because of `why`."""
    return Allow((*decision.because[:-1], f"allowed: {why}")) if isinstance(decision, Ask) else decision


class _Described(msgspec.Struct):
    description: str = ""


def described(tool: Tool) -> str:
    """What its server says of a tool: untrusted (b25)."""
    return description(tool.entry("", stateless=True))


def description(entry: bytes) -> str:
    """The same by the JSON text of its definition."""
    return msgspec.json.decode(entry, type=_Described).description


def may_use(agent: Agent, server: str, tool: str) -> bool:
    """Patterns are tried on the original and on the exported spellings (a26, a29)."""
    if agent.allowed_tools is None and not agent.denied_tools:
        return True
    return not barred(agent, server, tool)


def barred(agent: Agent, server: str, tool: str) -> str:
    """The rule by which the agent may not use it; empty where it may."""
    pair = (server, tool)
    exported = names.export(*pair, agent.spelling)
    return rules.barred(agent, (names.original(*pair), exported, *_marked(agent, pair)))


def _marked(agent: Agent, pair: names.Pair) -> tuple[str, ...]:
    """The name that the tool has where it would be ambiguous; also in views in which it is not, since what
    is denied by the name in one listing must not be there in another."""
    return (names.export_marked(*pair, agent.spelling),) if agent.spelling == "mcp_server_tool" else ()
