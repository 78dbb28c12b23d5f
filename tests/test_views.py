"""What one agent may see of all catalogues, under which names, and when it changed (a09, a12, a29, b24)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcpd import entries, views
from mcpd.catalog.prompt import Prompt
from mcpd.catalog.resource import Resource, Template
from mcpd.catalog.tool import Catalog, read_tools
from mcpd.catalog.wrappers import GET_PROMPT, READ_RESOURCE
from mcpd.changes import Changes
from mcpd.config.spec import Agent, Config, Faulty, Policy, Server
from mcpd.entries import Kind
from mcpd.errors import Failure
from mcpd.policy.decide import Allow, Ask, Deny
from mcpd.policy.review import Pin, Place, Review, review
from mcpd.rows import Row, ViewKey
from mcpd.upstream.cache import CatalogCache
from mcpd.upstream.fleet import Fleet
from mcpd.views import View, Views

ANYONE = Agent(name="default")


def catalog(*names: str, **more: Any) -> Catalog:
    definitions = [{"name": name, "inputSchema": {"type": "object"}, **more} for name in names]
    tools, warnings = read_tools([json.dumps(definitions).encode()])
    assert warnings == ()
    return Catalog(tools=tools, instructions="words of the server")


class Shelf:
    """A fleet that rests, its catalogues from the cache, and the views of it."""

    def __init__(self, folder: Path, config: Config | None = None) -> None:
        self.config = config or Config()
        self.changes = Changes()
        self.cache = CatalogCache(folder)
        self.fleet = Fleet(self.changes, self.cache, {}, "x.")
        self.trust: set[str] = set()
        self.pins: dict[Place, Pin] = {}
        self.views = Views(self.changes, self, self)

    def trusted(self, server: Server) -> bool:
        return server.name in self.trust

    def review(self, server: Server, catalog: Catalog, *, trusted: bool) -> Review:
        return review(catalog, self.pins, trusted=trusted)

    def offer(self, name: str, offered: Catalog, **fields: Any) -> None:
        """A server that offered this when it ran last."""
        server = Server(name=name, source="test", command="x", **fields)
        self.cache.store(name, server.digest, offered, "legacy", "2025-11-25", 0.0)
        self.apply(servers={**self.config.servers, name: server})

    def apply(self, off: frozenset[str] = frozenset(), **changed: Any) -> None:
        self.config = msgspec.structs.replace(self.config, **changed)
        self.fleet.apply(self.config, off, {}, connect=False)

    def view(self, agent: Agent = ANYONE, only: str = "", *without: str, root: str = "") -> View:
        key = ViewKey((agent.name, only, frozenset(without), root))
        return self.views.get(self.config, self.fleet, agent, key)

    def names(self, agent: Agent = ANYONE, only: str = "", *without: str) -> list[str]:
        return list(self.view(agent, only, *without).rows)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def agent(**fields: Any) -> Agent:
    return Agent(name=fields.pop("name", "a"), **fields)


# ------------------------------------------------------------------ what is in it


def test_a_tool_is_meant_by_the_very_name_it_is_listed_under(shelf: Shelf) -> None:
    """Also by one that it has only because another tool would have the same (D2), and in every listing."""
    shelf.offer("a", catalog("b_c"))
    shelf.offer("a_b", catalog("c", "d"))
    one, two, plain = shelf.names(agent(spelling="mcp_server_tool"))
    assert one != "mcp_a_b_c" != two
    assert plain == "mcp_a_b_d"
    denied = agent(name="b", spelling="mcp_server_tool", denied_tools=(one,))
    assert shelf.names(denied) == ["mcp_a_b_c", plain]
    assert shelf.names(denied, "a") == []
    assert shelf.names(denied, "", "a_b") == []
    allowed = agent(name="c", spelling="mcp_server_tool", allowed_tools=(one,))
    assert shelf.names(allowed) == ["mcp_a_b_c"]
    assert shelf.names(allowed, "a_b") == []

    shelf.apply(tool_policies=((one, Policy(approval="never")), (two, Policy(approval="deny"))))
    mcp = agent(name="d", spelling="mcp_server_tool")
    for only, left_out in (("", ()), ("a", ()), ("", ("a_b",))):
        [row, *_] = shelf.view(mcp, only, *left_out).rows.values()
        assert isinstance(row.decision, Allow)
    for only, left_out in (("a_b", ()), ("", ("a",))):
        [row, *_] = shelf.view(mcp, only, *left_out).rows.values()
        assert isinstance(row.decision, Deny)


def test_tools_appear_in_the_order_of_servers_and_of_their_own(shelf: Shelf) -> None:
    shelf.offer("b", catalog("z", "a"))
    shelf.offer("a", catalog("m"))
    assert shelf.names() == ["b__z", "b__a", "a__m"]


def test_names_are_spelled_as_the_agent_wants_them(shelf: Shelf) -> None:
    shelf.offer("web.search", catalog("get"))
    shelf.offer("a", catalog("b_c"))
    shelf.offer("a_b", catalog("c"))
    assert shelf.names() == ["web_search__get", "a__b_c", "a_b__c"]
    first, *doubtful = shelf.names(agent(spelling="mcp_server_tool"))
    assert first == "mcp_web_search_get"
    assert all(name.startswith("mcp_a_b_c_") for name in doubtful), "neither gets the plain name (D2)"
    assert len(set(doubtful)) == 2


def test_of_two_tools_with_one_name_the_later_is_left_out_and_it_is_said(shelf: Shelf) -> None:
    shelf.offer("s", catalog("a b", "a_b"))
    view = shelf.view()
    assert list(view.rows) == ["s__a_b"]
    assert view.rows["s__a_b"].tool.name == "a b"
    assert "left out" in view.warnings[0]


def test_a_server_alone_has_its_own_names_and_its_instructions(shelf: Shelf) -> None:
    shelf.offer("s", catalog("a b", "a_b", "x" * 100))
    shelf.offer("t", catalog("a_b"))
    assert shelf.names(ANYONE, "s") == ["a b", "a_b", "x" * 100]
    assert shelf.view(ANYONE, "s").instructions == "words of the server"
    assert shelf.view().instructions == ""
    assert shelf.names(ANYONE, "unknown") == []


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, ["s__read_a", "s__read_b", "s__write", "t__read_a"]),
        ({"allowed_tools": ()}, []),
        ({"allowed_tools": ("*",)}, ["s__read_a", "s__read_b", "s__write", "t__read_a"]),
        ({"allowed_tools": ("s__*",)}, ["s__read_a", "s__read_b", "s__write"]),
        ({"allowed_tools": ("s__read_?",)}, ["s__read_a", "s__read_b"]),
        ({"allowed_tools": ("s__write", "t__read_a")}, ["s__write", "t__read_a"]),
        ({"allowed_tools": ("*__read_a",)}, ["s__read_a", "t__read_a"]),
        ({"allowed_tools": ("read_a", "s", "S__WRITE", "s__writ")}, []),
        ({"denied_tools": ("*",)}, []),
        ({"denied_tools": ("*__read_*",)}, ["s__write"]),
        ({"allowed_tools": ("s__*",), "denied_tools": ("s__write",)}, ["s__read_a", "s__read_b"]),
        ({"allowed_tools": ("s__write",), "denied_tools": ("s__write",)}, []),
    ],
)
def test_lists_of_an_agent_decide_in_every_kind_of_view(
    shelf: Shelf, fields: dict[str, Any], names: list[str]
) -> None:
    shelf.offer("s", catalog("read_a", "read_b", "write"))
    shelf.offer("t", catalog("read_a"))
    assert shelf.names(agent(**fields)) == names
    own = [name.removeprefix("s__") for name in names if name.startswith("s__")]
    assert shelf.names(agent(**fields), "s") == own, "a bridge to one server widens nothing"
    assert shelf.names(agent(**fields), "", "t") == [name for name in names if name.startswith("s__")]


def test_lists_mean_a_tool_by_its_original_and_by_its_exported_name(shelf: Shelf) -> None:
    long = "x" * 80
    shelf.offer("my.server", catalog("do it", long))
    exported = shelf.names()
    assert exported[0] == "my_server__do_it"
    for pattern, position in (
        ("my.server__do it", 0),
        ("my_server__do_it", 0),
        (f"my.server__{long}", 1),
        (exported[1], 1),
    ):
        shelf.apply()  # an agent's new lists come by a new configuration
        assert shelf.names(agent(allowed_tools=(pattern,))) == [exported[position]]
        shelf.apply()
        assert shelf.names(agent(denied_tools=(pattern,))) == [exported[1 - position]]


def test_what_does_not_run_is_listed_and_what_may_not_run_is_not(shelf: Shelf) -> None:
    shelf.offer("rests", catalog("a"))
    shelf.offer("disabled", catalog("a"), enabled=False)
    shelf.offer("off", catalog("a"))
    shelf.apply(
        frozenset({"off"}),
        faulty={"faulty": Faulty("faulty", "file", "bad_definition", "no command")},
    )
    assert shelf.names() == ["rests__a"]


# ------------------------------------------------------------- its other kinds


BOOKS = Catalog(
    tools=catalog("echo", "list_prompts").tools,
    resources=(Resource("note:///1", b'"name":"1"'), Resource("mcpd://s/x:y", b'"name":"2"')),
    templates=(Template("note:///{id}", b'"name":"a note"'),),
    prompts=(Prompt("say it", b""), Prompt("say_it", b""), Prompt("greet", b'"title":"Greet"')),
    features=frozenset({"tools", "resources", "prompts"}),
)


def listed(view: View, kind: Kind) -> list[str]:
    return [entry.name for entry in view.listing(kind).entries]


def test_resources_and_prompts_of_all_servers_stand_side_by_side(shelf: Shelf) -> None:
    shelf.offer("s", BOOKS)
    shelf.offer("t", BOOKS)
    view = shelf.view()
    own = ["mcpd://{}/note:///1", "mcpd://{}/mcpd://s/x:y"]
    assert listed(view, "resources") == [uri.format(name) for name in "st" for uri in own]
    assert listed(view, "templates") == ["mcpd://s/note:///{id}", "mcpd://t/note:///{id}"]
    assert listed(view, "prompts") == ["s__say_it", "s__greet", "t__say_it", "t__greet"]
    assert view.prompts["s__say_it"][1].name == "say it"
    first = view.listing("prompts").warnings[0]
    assert first.startswith('prompt "say_it" of server "s" is left out')
    assert json.loads(b"[" + view.listing("prompts").page(0, False)[0] + b"]")[1] == {
        "name": "s__greet",
        "title": "Greet",
    }
    resource = json.loads(b"[" + view.listing("resources").page(0, True)[0] + b"]")[0]
    assert resource == {"uri": "mcpd://s/note:///1", "name": "1"}


def test_a_server_alone_has_its_own_uris_and_no_wrappers(shelf: Shelf) -> None:
    shelf.offer("s", BOOKS)
    view = shelf.view(ANYONE, "s")
    assert listed(view, "resources") == ["note:///1", "mcpd://s/x:y"]
    assert listed(view, "templates") == ["note:///{id}"]
    assert listed(view, "prompts") == ["say it", "say_it", "greet"]
    assert list(view.rows) == ["echo", "list_prompts"]


def test_the_page_that_shows_a_tool_is_read_by_the_uri_of_the_view(shelf: Shelf) -> None:
    """MCP Apps (5.17): a host reads it through mcpd as any resource."""
    shelf.offer("s", catalog("t", _meta={"ui": {"resourceUri": "ui://t"}, "com.example/x": 1}))
    for only, uri in (("", "mcpd://s/ui://t"), ("s", "ui://t")):
        page, _ = shelf.view(ANYONE, only).listing("tools").page(0, stateless=True)
        assert json.loads(page)["_meta"] == {"ui": {"resourceUri": uri}, "com.example/x": 1}


def test_wrappers_stand_beside_a_servers_own_tools(shelf: Shelf) -> None:
    """One of the server's own name for it wins (a12); what reading is decided as stays the same (a01)."""
    shelf.offer("s", BOOKS)
    view = shelf.view()
    assert list(view.rows) == [
        "s__echo",
        "s__list_prompts",
        "s__list_resources",
        "s__read_resource",
        "s__get_prompt",
    ]
    assert (view.rows["s__list_prompts"].local, view.rows["s__list_resources"].local) == (False, True)
    assert view.rows["s__read_resource"].method == "resources/read"


def test_a_prompt_that_waits_for_a_person_is_not_there_by_the_wrapper_either_n18(shelf: Shelf) -> None:
    hidden = Prompt("odd", b'"description":"words\xf3\xa0\x81\xa1\xf3\xa0\x81\xa2"')
    shelf.offer("s", Catalog(prompts=(hidden, Prompt("plain", b"")), features=frozenset({"prompts"})))
    view = shelf.view()
    assert list(view.prompts) == ["s__plain"]
    row = view.rows["s__get_prompt"]
    assert row.members(b'{"name":"plain"}') == b'"name":"plain"'
    for name in ("odd", "s__odd"):
        with pytest.raises(Failure) as refused:
            row.members(json.dumps({"name": name}).encode())
        assert refused.value.kind == "denied"
        assert "hidden characters" in refused.value.message
        assert "mcpctl pins diff s" in refused.value.hint
    # It may have come to wait while the request did; that was found when it was plain.
    native = view.native("s", GET_PROMPT, "prompts/get")
    assert native is not None
    assert native.members(b'"name":"plain"') == b'"name":"plain"'
    with pytest.raises(Failure) as refused:
        native.members(b'"name":"odd","arguments":{}')
    assert refused.value.kind == "denied"


def test_every_kind_is_paged(shelf: Shelf) -> None:
    many = tuple(Resource(f"x:{number}", b'"name":"n"') for number in range(501))
    shelf.offer("s", Catalog(resources=many, features=frozenset({"resources"})))
    shown = shelf.view().listing("resources")
    assert shown.page(0, False)[1] == 500
    assert shown.page(500, False) == (b'{"uri":"mcpd://s/x:500","name":"n"}', None)


@pytest.mark.parametrize("only", ["", "s"])
def test_what_was_decided_on_holds_as_long_as_nothing_changes(shelf: Shelf, only: str) -> None:
    """DESIGN 6: under the same rules and with the same catalogues, also when they change and change back."""
    shelf.offer("s", BOOKS)

    def rows() -> list[Row]:
        view = shelf.view(ANYONE, only)
        read = view.native("s", READ_RESOURCE, "resources/read")
        assert read is not None
        return [*view.rows.values(), read]

    before = rows()
    assert all(map(shelf.views.holds, before))
    shelf.view(ANYONE, "" if only else "s")
    shelf.view(agent(name="b"), only)
    assert all(map(shelf.views.holds, before))
    shelf.apply(tool_policies=(("s__read_*", Policy(approval="deny")),))
    assert not any(map(shelf.views.holds, before))
    after = rows()
    assert not any(map(shelf.views.holds, before))
    assert all(map(shelf.views.holds, after))
    shelf.apply(tool_policies=())
    rows()
    assert not any(map(shelf.views.holds, [*before, *after]))


def test_a_native_method_is_ruled_as_the_tool_that_stands_for_it(shelf: Shelf) -> None:
    shelf.offer("s", BOOKS)
    shelf.apply(tool_policies=(("s__read_*", Policy(approval="never", timeout=7)),))
    for only in ("", "s"):
        view = shelf.view(ANYONE, only)
        read = view.native("s", READ_RESOURCE, "resources/read")
        get = view.native("s", GET_PROMPT, "prompts/get")
        assert read is not None
        assert get is not None
        assert (type(read.decision), type(get.decision)) == (Allow, Ask)
        assert read.ruling.timeout == 7
        assert (read.method, read.tool.name, read.prefix) == (
            "resources/read",
            "read_resource",
            "" if only else "s",
        )
        assert view.native("s", READ_RESOURCE, "resources/read") is read
        assert view.native("s", READ_RESOURCE, "resources/subscribe") is not read
        assert view.native("nobody", READ_RESOURCE, "resources/read") is None


@pytest.mark.parametrize(
    ("fields", "reads", "gets"),
    [
        ({}, True, True),
        ({"denied_tools": ("s__read_resource",)}, False, True),
        ({"denied_tools": ("*__get_prompt",)}, True, False),
        ({"allowed_tools": ("s__echo",)}, False, False),
        ({"allowed_tools": ("s__*_resource",)}, True, False),
        ({"allowed_tools": ("mcp_s_get_prompt",), "spelling": "mcp_server_tool"}, False, True),
    ],
)
@pytest.mark.parametrize("only", ["", "s"])
def test_lists_of_an_agent_decide_about_every_kind(
    shelf: Shelf, fields: dict[str, Any], reads: bool, gets: bool, only: str
) -> None:
    shelf.offer("s", BOOKS)
    view = shelf.view(agent(**fields), only)
    assert bool(listed(view, "resources")) is bool(listed(view, "templates")) is reads
    assert (view.native("s", READ_RESOURCE, "resources/read") is not None) is reads
    assert bool(listed(view, "prompts")) is gets
    assert (view.native("s", GET_PROMPT, "prompts/get") is not None) is gets


def test_features_of_one_server_are_its_own_and_of_many_all(shelf: Shelf) -> None:
    shelf.offer("s", BOOKS)
    assert shelf.view(ANYONE, "s").features == {"tools", "resources", "prompts"}
    assert shelf.view().features == views.EVERYTHING
    assert shelf.view(ANYONE, "unknown").features == views.EVERYTHING, "nothing is ruled out"


def test_each_kind_has_a_number_of_its_own(shelf: Shelf) -> None:
    kinds: tuple[Kind, ...] = ("tools", "resources", "templates", "prompts")

    def numbers() -> list[int]:
        return [shelf.view().listing(kind).number for kind in kinds]

    shelf.offer("s", BOOKS)
    first = numbers()
    assert len(set(first)) == 4
    changed = msgspec.structs.replace(BOOKS, prompts=())
    shelf.offer("s", changed, args=("2",))
    second = numbers()
    assert second[:3] == first[:3]
    assert second[3] not in first
    shelf.changes.publish("catalog", "s")
    shelf.view().listing("tools")  # nobody looks at the others in between
    shelf.changes.publish("catalog", "s")
    assert numbers() == second


# --------------------------------------------------------------------- its rulings


def decision(shelf: Shelf, name: str, who: Agent = ANYONE, only: str = "") -> type:
    return type(shelf.view(who, only).rows[name].decision)


@pytest.mark.parametrize(
    ("policies", "decided"),
    [
        ([("s__do it", Policy(approval="never"))], Allow),
        ([("s__do_it", Policy(approval="never"))], Allow),
        ([("s__*", Policy(approval="never"))], Allow),
        ([("do it", Policy(approval="never"))], Ask),
        ([("do_it", Policy(approval="never"))], Ask),
        ([("mcp_s_do_it", Policy(approval="never"))], Ask),
        ([("s__*", Policy(approval="never")), ("s__do it", Policy(approval="deny"))], Deny),
    ],
)
def test_a_policy_counts_however_the_tool_is_shown(
    shelf: Shelf, policies: list[tuple[str, Policy]], decided: type
) -> None:
    shelf.offer("s", catalog("do it"))
    shelf.apply(tool_policies=tuple(policies))
    assert decision(shelf, "s__do_it") is decided
    assert decision(shelf, "do it", ANYONE, "s") is decided


def test_an_agents_own_spelling_may_name_the_tool_as_well(shelf: Shelf) -> None:
    shelf.offer("s", catalog("do_it"))
    shelf.apply(tool_policies=(("mcp_s_do_it", Policy(approval="never")),))
    assert decision(shelf, "mcp_s_do_it", agent(spelling="mcp_server_tool")) is Allow
    assert decision(shelf, "s__do_it") is Ask


MCP = Agent(name="m", spelling="mcp_server_tool", auto_approve=("mcp_a_b_c",))
EVERYWHERE = [("", ()), ("a", ()), ("", ("a_b",))]


@pytest.mark.parametrize(("only", "left_out"), EVERYWHERE)
def test_a_name_that_two_servers_tools_could_have_denies_both_and_allows_neither_d2(
    shelf: Shelf, only: str, left_out: tuple[str, ...]
) -> None:
    """Whatever else is shown, is running or has its catalogue known: an agent chooses its listing itself."""
    shelf.offer("a", catalog("b_c"))
    shelf.offer("a_b", catalog("c"))

    def decided(**policy: Any) -> type:
        shelf.apply(tool_policies=(("mcp_a_b_c", Policy(**policy)),))
        rows = shelf.view(MCP, only, *left_out).rows.values()
        [row] = [row for row in rows if row.upstream.name == "a"]
        return type(row.decision)

    assert decided(approval="deny") is Deny
    assert decided(approval="never") is Ask
    assert decided(risk="low") is Ask
    shelf.apply(off=frozenset({"a_b"}))
    assert decided(approval="never") is Ask
    assert decided() is Ask, "auto_approve of the name"


@pytest.mark.parametrize("only", ["", "a"])
def test_a_name_in_the_agents_spelling_counts_in_every_view(shelf: Shelf, only: str) -> None:
    shelf.offer("a", catalog("b_c"))
    for policy, said in ((Policy(approval="deny"), Deny), (Policy(approval="never"), Allow)):
        shelf.apply(tool_policies=(("mcp_a_b_c", policy),))
        [row] = shelf.view(MCP, only).rows.values()
        assert type(row.decision) is said
    shelf.apply(tool_policies=(("a__b_c", Policy(risk="medium")),))
    [row] = shelf.view(MCP, only).rows.values()
    assert type(row.decision) is Allow, "auto_approve"


def test_a_server_cannot_name_its_tool_into_anothers_policy(shelf: Shelf) -> None:
    shelf.offer("evil", catalog("good__read"))
    shelf.apply(tool_policies=(("good__read", Policy(approval="never")),))
    assert decision(shelf, "good__read", ANYONE, "evil") is Ask
    assert decision(shelf, "evil__good__read") is Ask


@pytest.mark.parametrize(
    ("replay", "reached", "may"),
    [
        ("auto", False, True),
        ("auto", True, False),
        ("always", True, True),
        ("never", False, False),
        ("never", True, False),
    ],
)
def test_what_may_be_sent_again(shelf: Shelf, replay: str, reached: bool, may: bool) -> None:
    """Annotations of a server that is not trusted allow nothing (D3, D4)."""
    shelf.offer("s", catalog("a", annotations={"readOnlyHint": True, "idempotentHint": True}), replay=replay)
    assert shelf.view().rows["s__a"].may_replay(reached) is may


def test_the_head_of_a_call_has_the_servers_own_name(shelf: Shelf) -> None:
    shelf.offer("s", catalog('o"d \u00e9'))
    [row] = shelf.view().rows.values()
    assert json.loads(b"{" + row.head + b"{}}") == {"name": 'o"d \u00e9', "arguments": {}}


# ----------------------------------------------------------------------- its pages


def test_pages_have_500_entries(shelf: Shelf) -> None:
    shelf.offer("s", catalog(*[f"t{number}" for number in range(1001)]))
    view = shelf.view()
    assert len(view.rows) == 1001
    found: list[str] = []
    sizes = []
    start: int | None = 0
    while start is not None:
        text, start = view.listing("tools").page(start, stateless=False)
        page = [tool["name"] for tool in json.loads(b"[" + text + b"]")]
        sizes.append(len(page))
        found += page
    assert sizes == [500, 500, 1]
    assert found == list(view.rows)
    assert view.listing("tools").page(5000, stateless=False) == (b"", None)


def test_what_is_offered_as_before_is_listed_as_before_under_the_rules_of_now(tmp_path: Path) -> None:
    made: dict[int, Review] = {}

    class Reviewed(Shelf):
        """As the daemon does it: one review of each catalogue."""

        def review(self, server: Server, catalog: Catalog, *, trusted: bool) -> Review:
            return made.setdefault(id(catalog), super().review(server, catalog, trusted=trusted))

    shelf = Reviewed(tmp_path)
    shelf.offer("s", BOOKS)
    narrow = agent(denied_tools=("s__read_*",))
    before, narrowed = shelf.view(), shelf.view(narrow)
    listed = before.listing("tools"), before.listing("prompts")
    assert len(narrowed.rows) < len(before.rows)
    shelf.apply(tool_policies=(("s__*", Policy(approval="deny")),))
    now = shelf.view()
    assert (now.listing("tools"), now.listing("prompts")) == listed
    assert list(now.rows) == list(before.rows)
    for name, row in now.rows.items():
        assert row is not before.rows[name]
        assert isinstance(row.decision, Deny)
        assert now.rows.of(row.upstream.name, row.tool.name) is row
    # Another agent under the same name, and another server beside it.
    assert list(shelf.view(agent()).rows) == list(before.rows)
    shelf.offer("t", catalog("add"))
    more = shelf.view()
    assert set(more.rows) == {*before.rows, "t__add"}
    assert more.listing("tools").number != listed[0].number
    shelf.apply(servers={"s": shelf.config.servers["s"]})
    assert list(shelf.view().rows) == list(before.rows)


def test_pages_that_were_joined_are_kept_until_something_changes_and_no_more_than_fit(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "ROOM", 20_000)
    names = [f"t{number}" for number in range(1001)]
    shelf.offer("s", catalog(*names[:3]))
    shelf.offer("t", catalog(*names))
    small, large = (shelf.view(ANYONE, only).listing("tools") for only in ("s", "t"))
    assert small.page(0, stateless=False)[0] is small.page(0, stateless=False)[0]
    assert len(large.page(0, stateless=False)[0]) > 20_000
    assert large.page(0, stateless=False)[0] is not large.page(0, stateless=False)[0]
    assert large.page(0, stateless=False) == large.page(0, stateless=False)
    assert large.page(1000, stateless=False)[0] is large.page(1000, stateless=False)[0]
    shelf.offer("s", catalog(*names[:2]), args=("other",))
    now = shelf.view(ANYONE, "s").listing("tools")
    assert [tool["name"] for tool in json.loads(b"[" + now.page(0, stateless=False)[0] + b"]")] == names[:2]


def test_exactly_one_page_has_no_next(shelf: Shelf) -> None:
    shelf.offer("s", catalog(*[f"t{number}" for number in range(500)]))
    assert shelf.view().listing("tools").page(0, stateless=True)[1] is None


def test_an_entry_is_the_servers_definition_under_the_agents_name(shelf: Shelf) -> None:
    more = {"description": "d", "title": "t", "inputSchema": {"type": "object", "x-odd": [1.50, None]}}
    shelf.offer("s", catalog("a", **more))
    text, _ = shelf.view().listing("tools").page(0, stateless=False)
    assert json.loads(text) == {"name": "s__a", **more}


# ------------------------------------------------------------- when it has changed


def test_a_view_is_built_once_until_something_changes(shelf: Shelf) -> None:
    shelf.offer("s", catalog("a"))
    key = ViewKey(("default", "", frozenset(), ""))
    assert shelf.views.current(key) is None
    view = shelf.view()
    assert shelf.view() is view
    assert shelf.views.current(key) is view
    shelf.changes.publish("status", "s")
    assert shelf.views.current(key) is view, "a status is no catalogue"
    shelf.changes.publish("catalog", "s")
    assert shelf.views.current(key) is None
    assert shelf.view() is not view


Change = Callable[[Shelf], None]


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        (lambda shelf: shelf.changes.publish("catalog", "s"), False),
        (lambda shelf: shelf.apply(), False),
        (lambda shelf: shelf.apply(tool_policies=(("*", Policy(approval="deny")),)), False),
        (lambda shelf: shelf.offer("t", catalog()), False),
        (lambda shelf: shelf.offer("t", catalog("x")), True),
        (lambda shelf: shelf.offer("s", catalog("a", "b", "c"), args=("2",)), True),
        (lambda shelf: shelf.offer("s", catalog("b", "a"), args=("2",)), True),
        (lambda shelf: shelf.offer("s", catalog("a", "b", description="new"), args=("2",)), True),
        (lambda shelf: shelf.offer("s", catalog("a", "b"), args=("2",)), False),
        (lambda shelf: shelf.apply(frozenset({"s"})), True),
        (lambda shelf: shelf.apply(servers={}), True),
    ],
)
def test_its_number_changes_with_what_an_agent_can_see(shelf: Shelf, change: Change, moved: bool) -> None:
    shelf.offer("s", catalog("a", "b"))
    before = shelf.view().listing("tools").number
    change(shelf)
    assert (shelf.view().listing("tools").number != before) is moved


def test_numbers_never_come_back(shelf: Shelf) -> None:
    shelf.offer("s", catalog("a"))
    seen = {shelf.view().listing("tools").number}
    for off in (frozenset({"s"}), frozenset[str]()) * 3:
        shelf.apply(off)
        number = shelf.view().listing("tools").number
        assert number not in seen
        seen.add(number)


def test_a_new_policy_counts_at_once_although_the_listing_is_the_same(shelf: Shelf) -> None:
    shelf.offer("s", catalog("a"))
    assert decision(shelf, "s__a") is Ask
    shelf.apply(tool_policies=(("s__a", Policy(approval="never")),))
    assert decision(shelf, "s__a") is Allow


def test_views_are_kept_in_bounded_number(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each session may leave out what it likes, so there is no end to the keys."""
    monkeypatch.setattr(views, "KEPT", 8)
    shelf.offer("s", catalog("a"))
    for turn in range(4):
        for number in range(30):
            assert shelf.names(ANYONE, "", f"unknown{number}") == ["s__a"]
        assert len(shelf.views._views) <= 8
        assert len(shelf.views._before) <= 8
        shelf.changes.publish("catalog", turn)


# ---------------------------------------------------------------- instances (n04)


def test_the_root_decides_nothing_where_no_server_is_per_project(shelf: Shelf) -> None:
    shelf.offer("s", catalog("a"))
    shelf.offer("browser", catalog("b"), instance="agent")
    view = shelf.view()
    assert all(shelf.view(root=f"/{number}") is view for number in range(2 * views.KEYS))
    assert shelf.view(root="/new").rows["s__a"].key.root == ""
    assert len(shelf.fleet.instances("browser")) == 1


def test_each_agent_and_project_calls_its_own_instance(shelf: Shelf) -> None:
    shelf.offer("s", catalog("a"))
    shelf.offer("b", catalog("a"), instance="agent")
    shelf.offer("p", catalog("a"), instance="project")

    def places(view: View) -> list[str]:
        return [str(row.upstream.scope) for row in view.rows.values()]

    assert places(shelf.view(root="/1")) == ["", "agent default", "project /1"]
    assert places(shelf.view(root="/2")) == ["", "agent default", "project /2"]
    assert places(shelf.view(agent())) == ["", "agent a", "project (none)"]
    assert places(shelf.view(Agent(name=""))) == ["", "", ""], "the operator"
    one, two = shelf.view(root="/1"), shelf.view(root="/2")
    assert one is not two
    assert shelf.view(root="/1") is one
    assert one.rows["s__a"].upstream is two.rows["s__a"].upstream


def test_a_server_per_project_that_is_not_in_the_view_decides_nothing(shelf: Shelf) -> None:
    shelf.offer("s", catalog("a"))
    shelf.offer("p", catalog("a"), instance="project")
    assert shelf.view(ANYONE, "s", root="/1") is shelf.view(ANYONE, "s", root="/2")
    assert shelf.view(ANYONE, "", "p", root="/1") is shelf.view(ANYONE, "", "p", root="/2")
    denied = agent(denied_tools=("p__*",))
    assert shelf.view(denied, root="/1") is shelf.view(denied, root="/2")


def test_a_dropped_instance_is_in_no_view(shelf: Shelf) -> None:
    shelf.offer("b", catalog("a"), instance="agent")
    shelf.fleet.joined("s1", "default", "")
    view = shelf.view()
    number = view.listing("tools").number
    dropped = view.rows["b__a"].upstream
    shelf.fleet.left("s1")
    key = ViewKey(("default", "", frozenset(), ""))
    assert shelf.views.current(key) is None
    again = shelf.view()
    assert again.rows["b__a"].upstream is not dropped
    assert again.listing("tools").number == number, "its agent sees no difference"


def test_the_end_of_an_instance_is_nothing_to_other_agents(shelf: Shelf) -> None:
    shelf.offer("b", catalog("a"), instance="agent")
    for session, name in (("s1", "a"), ("s2", "b")):
        shelf.fleet.joined(session, name, "")
        shelf.view(agent(name=name))
    other = shelf.view(agent(name="b"))
    shelf.fleet.left("s1")
    assert shelf.views.current(ViewKey(("b", "", frozenset(), ""))) is other
    assert shelf.views.current(ViewKey(("a", "", frozenset(), ""))) is None
    assert shelf.view(agent(name="b")) is other


def test_a_cache_that_says_read_only_lowers_nothing_b11(tmp_path: Path) -> None:
    """Whoever may write ~/.cache could lower a risk; trust is in the server, not in that file (DESIGN 4)."""
    shelf = Shelf(tmp_path)
    shelf.trust = {"notes", "more"}
    shelf.offer("notes", catalog("read", annotations={"readOnlyHint": True}))
    row = shelf.view().rows["notes__read"]
    assert (row.trusted, row.unverified) == (False, True)
    assert (row.ruling.risk, row.ruling.approval) == ("high", "unless_auto_approved")
    shelf.offer("more", catalog("read", annotations={"destructiveHint": True}))
    row = shelf.view().rows["more__read"]
    assert (row.ruling.risk, row.ruling.approval) == ("high", "always"), "it can raise one"
