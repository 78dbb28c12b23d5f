"""Resources, prompts and completion towards agents, natively and as wrapper tools (5.3-5.5, a01, a10-a19)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agents.world import MODERN, Agent, Ear, Stage, check, kind_of, staged, text_of
from tests.conftest import Home
from tests.control.world import library as library_server
from tests.control.world import tiny, write_config, write_server

REVISIONS = ("2024-11-05", "2025-11-25", MODERN)
ERAS = ("--handshake", "--modern")

NOTES = ["note:///1", "note:///2", "blob:///b"]


@asynccontextmanager
async def library(home: Home, *options: str, **fields: Any) -> AsyncIterator[tuple[Stage, Ear]]:
    """A daemon with the servers `books`, which is a library, and `tiny`, which has tools alone."""
    async with Ear(home.root / "ear") as ear:
        write_server(home, "books", **ear.library(*options, **fields))
        write_server(home, "tiny", **tiny())
        async with staged(home) as stage:
            yield stage, ear


async def everything(agent: Agent, method: str, member: str) -> list[Any]:
    """All entries of a list, page by page."""
    entries: list[Any] = []
    params: dict[str, Any] = {}
    while True:
        page = await agent.ask(method, params)
        entries += page[member]
        if page.get("nextCursor") is None:
            return entries
        params = {"cursor": page["nextCursor"]}


async def uris(agent: Agent) -> list[str]:
    return [entry["uri"] for entry in await everything(agent, "resources/list", "resources")]


# -------------------------------------------------------------------- resources


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_resources_of_all_servers_under_one_qualifier_each(
    home: Home, real_clock: None, revision: str, era: str
) -> None:
    async with library(home, era) as (stage, _):
        agent = await stage.attach(revision=revision)
        assert await uris(agent) == [f"mcpd://books/{uri}" for uri in NOTES]
        templates = await everything(agent, "resources/templates/list", "resourceTemplates")
        assert [entry["uriTemplate"] for entry in templates] == ["mcpd://books/note:///{id}"]

        read = await agent.ask("resources/read", {"uri": "mcpd://books/note:///2"})
        assert read["contents"] == [
            {"uri": "mcpd://books/note:///2", "mimeType": "text/plain", "text": "note 2"}
        ]
        made = await agent.ask("resources/read", {"uri": "mcpd://books/note:///77"})
        assert made["contents"][0]["text"] == "note 77", "a template makes more than is listed"
        binary = await agent.ask("resources/read", {"uri": "mcpd://books/blob:///b"})
        assert binary["contents"][0]["blob"] == "MTIzNDU="


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_alone_has_its_own_uris_and_names(
    home: Home, real_clock: None, revision: str, era: str
) -> None:
    async with library(home, era) as (stage, _):
        agent = await stage.attach(revision=revision, server="books")
        assert await uris(agent) == NOTES
        read = await agent.ask("resources/read", {"uri": "note:///2"})
        assert read["contents"][0]["uri"] == "note:///2"
        prompts = await everything(agent, "prompts/list", "prompts")
        assert [prompt["name"] for prompt in prompts] == ["greet", "review"]
        got = await agent.ask("prompts/get", {"name": "greet"}, odd=revision == "2024-11-05")
        assert got["messages"][0]["content"]["text"] == "greet nothing", "what is left out is left out"
        assert got["messages"][1]["content"]["uri"] == "note:///1"
        assert not any("resource" in name for name in await agent.tools()), (
            "no wrappers beside the real thing"
        )


@pytest.mark.parametrize(
    "uri",
    [
        "mcpd://tiny/note:///1",
        "mcpd://nobody/note:///1",
        "mcpd://books",
        "mcpd:///note:///1",
        "note:///1",
        "",
        "mcpd://books__/x",
        "mcpd://BOOKS/note:///1",
    ],
)
@pytest.mark.parametrize(("revision", "code"), [("2025-11-25", -32002), (MODERN, -32602)])
async def test_a_uri_of_nobody_is_not_looked_for_among_servers(
    home: Home, real_clock: None, uri: str, revision: str, code: int
) -> None:
    async with library(home) as (stage, ear):
        agent = await stage.attach(revision=revision)
        refused = await agent.refusal("resources/read", {"uri": uri})
        assert (refused.code, refused.kind, refused.data["uri"]) == (code, "no_such_resource", uri)
        await agent.call("books__echo")
        await ear.hear("heard", method="tools/call")
        assert not any(row.get("method") == "resources/read" for row in ear.kept)
        [entry] = await stage.journal(outcome="no_such_resource")
        assert (entry.method, entry.tool) == ("resources/read", uri)


@pytest.mark.parametrize("era", ERAS)
async def test_a_servers_own_refusal_passes_in_the_agents_era(home: Home, real_clock: None, era: str) -> None:
    """Up to 2025-11-25 "not found" has a code of its own (5.3); nothing else is changed."""
    async with library(home, era) as (stage, _):
        for revision, code in (("2025-11-25", -32002), (MODERN, -32602)):
            agent = await stage.attach(revision=revision)
            await agent.send("resources/read", {"uri": "mcpd://books/note:///x"}, 1)
            error = (await agent.answer(1))["error"]
            assert error == {"code": code, "message": "no such note", "data": {"uri": "note:///x"}}


async def test_what_a_server_does_not_advertise_is_not_asked_of_it(home: Home, real_clock: None) -> None:
    async with library(home, "--bare") as (stage, ear):
        agent = await stage.attach()
        assert await everything(agent, "prompts/list", "prompts") == []
        assert (await agent.refusal("prompts/get", {"name": "books__greet"})).kind == "no_such_prompt"
        refused = await agent.refusal("resources/subscribe", {"uri": "mcpd://books/note:///1"})
        assert (refused.kind, "does not tell" in refused.message) == ("bad_answer", True)
        assert (await agent.ask("logging/setLevel", {"level": "debug"})) == {}
        alone = await stage.attach(server="books")
        ref = {"type": "ref/resource", "uri": "note:///{id}"}
        params = {"ref": ref, "argument": {"name": "id", "value": ""}}
        assert (await alone.refusal("completion/complete", params)).code == -32601
        params["ref"] = {"type": "ref/resource", "uri": "mcpd://books/note:///{id}"}
        nothing = await agent.ask("completion/complete", params)
        assert nothing["completion"] == {"values": [], "total": 0, "hasMore": False}
        await agent.call("books__echo")
        await ear.hear("heard", method="tools/call")
        heard = {row.get("method") for row in ear.kept}
        assert not heard & {"prompts/list", "prompts/get", "completion/complete", "logging/setLevel"}


async def test_a_read_that_is_too_long_is_cut_and_says_so(home: Home, real_clock: None) -> None:
    write_config(home, '[defaults]\nmax_result = "10"\n')
    async with library(home) as (stage, _):
        agent = await stage.attach()
        read = await agent.ask("resources/read", {"uri": "mcpd://books/note:///1234567890123"})
        assert read["contents"][0]["text"] == "note 12345"
        assert "left out" in read["contents"][1]["text"]
        assert {part["uri"] for part in read["contents"]} == {"mcpd://books/note:///1234567890123"}


# ---------------------------------------------------------------------- prompts


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_prompts_are_named_as_tools_are(home: Home, real_clock: None, revision: str, era: str) -> None:
    async with library(home, era) as (stage, _):
        agent = await stage.attach(revision=revision)
        prompts = await everything(agent, "prompts/list", "prompts")
        assert [prompt["name"] for prompt in prompts] == ["books__greet", "books__review"]
        assert prompts[1]["arguments"] == [{"name": "code", "required": True}, {"name": "style"}]
        params = {"name": "books__review", "arguments": {"style": "kind", "code": "x"}}
        got = await agent.ask("prompts/get", params, odd=revision == "2024-11-05")
        assert got["messages"][0]["content"]["text"] == "review [('code', 'x'), ('style', 'kind')]"
        assert got["messages"][1]["content"]["uri"] == "mcpd://books/note:///1"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_prompts_that_cannot_be_got(home: Home, real_clock: None, revision: str) -> None:
    async with library(home) as (stage, _):
        agent = await stage.attach(revision=revision)
        for name in ("greet", "books__nope", "tiny__greet", "nobody__greet", "", "x" * 100_000):
            refused = await agent.refusal("prompts/get", {"name": name})
            assert (refused.code, refused.kind) == (-32602, "no_such_prompt")
            assert len(refused.message) < 300
        await agent.send("prompts/get", {"name": "books__review"}, 1)
        assert (await agent.answer(1))["error"] == {"code": -32602, "message": "code is missing"}
        bad: list[Any] = [
            {},
            {"name": 1},
            {"name": "books__greet", "arguments": [1]},
        ]
        for params in bad:
            assert (await agent.refusal("prompts/get", params)).code == -32602
        await agent.line(
            '{"jsonrpc":"2.0","id":9,"method":"prompts/get","params":{"name":"books__greet",'
            '"arguments":{"a":"1","a":"2"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
            '"io.modelcontextprotocol/clientCapabilities":{}}}}'
        )
        assert "twice" in (await agent.answer(9))["error"]["message"], "two meanings (b29)"


# ------------------------------------------------------------------- completion


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_completions_are_asked_under_the_servers_own_names(
    home: Home, real_clock: None, revision: str, era: str
) -> None:
    async with library(home, era) as (stage, ear):
        agent = await stage.attach(revision=revision)
        context = {"arguments": {"code": "x"}}
        found = await agent.ask(
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "books__review"},
                "argument": {"name": "style", "value": "b"},
                "context": context,
            },
        )
        assert found["completion"] == {"values": ["brief", "broad"], "total": 2, "hasMore": False}
        own = {"type": "ref/prompt", "name": "review"}
        await ear.hear("completing", ref=own, context=context)
        ref = {"type": "ref/resource", "uri": "mcpd://books/note:///{id}"}
        argument = {"name": "id", "value": "k"}
        found = await agent.ask("completion/complete", {"ref": ref, "argument": argument})
        assert found["completion"]["values"] == ["kind"]
        await ear.hear("completing", ref={"type": "ref/resource", "uri": "note:///{id}"}, context=None)


@pytest.mark.parametrize(
    ("ref", "kind"),
    [
        ({"type": "ref/prompt", "name": "books__nope"}, "no_such_prompt"),
        ({"type": "ref/prompt"}, "invalid_params"),
        ({"type": "ref/resource", "name": "books__review"}, "invalid_params"),
        ({"type": "ref/resource", "uri": "note:///{id}"}, "no_such_resource"),
        ({"type": "ref/other", "name": "x"}, "invalid_params"),
        ({}, "invalid_params"),
        ("x", "invalid_params"),
    ],
)
async def test_what_cannot_be_completed(home: Home, real_clock: None, ref: Any, kind: str) -> None:
    async with library(home) as (stage, _):
        agent = await stage.attach()
        params = {"ref": ref, "argument": {"name": "a", "value": ""}}
        assert (await agent.refusal("completion/complete", params)).kind == kind


@pytest.mark.parametrize("context", ['{"a":1,"a":2}', '{"arguments":{"b":1,"\\u0062":2}}', "[]", "3"])
async def test_a_context_has_one_meaning_b29(home: Home, real_clock: None, context: str) -> None:
    async with library(home) as (stage, _):
        agent = await stage.attach()
        ref = '{"type":"ref/prompt","name":"books__review"}'
        params = f'{{"ref":{ref},"argument":{{"name":"a","value":""}},"context":{context}}}'
        await agent.line(f'{{"jsonrpc":"2.0","id":9,"method":"completion/complete","params":{params}}}')
        assert (await agent.answer(9))["error"]["code"] == -32602


# ----------------------------------------------------------------------- policy


async def test_native_methods_are_decided_as_their_wrappers_a01(home: Home, real_clock: None) -> None:
    policies = """
        [tool_policies]
        "books__read_resource" = { approval = "deny" }
        "books__get_prompt" = { approval = "deny" }
    """
    write_config(home, policies)
    async with library(home) as (stage, ear):
        agent = await stage.attach()
        assert len(await uris(agent)) == 3, "a list shows what may be used, also where a rule denies it now"
        prompt = {"type": "ref/prompt", "name": "books__review"}
        template = {"type": "ref/resource", "uri": "mcpd://books/note:///{id}"}
        argument = {"name": "a", "value": ""}
        asked: list[tuple[str, dict[str, Any], str]] = [
            ("resources/read", {"uri": "mcpd://books/note:///1"}, "read_resource"),
            ("resources/subscribe", {"uri": "mcpd://books/note:///1"}, "read_resource"),
            ("prompts/get", {"name": "books__greet"}, "get_prompt"),
            ("completion/complete", {"ref": prompt, "argument": argument}, "get_prompt"),
            ("completion/complete", {"ref": template, "argument": argument}, "read_resource"),
        ]
        for method, params, tool in asked:
            refused = await agent.refusal(method, params)
            assert (refused.kind, tool in refused.message) == ("denied", True)
            entry, *_ = await stage.journal(outcome="denied")
            assert (entry.method, entry.tool, entry.server, entry.decision) == (method, tool, "books", "deny")
        for tool, arguments in (("read_resource", {"uri": "note:///1"}), ("get_prompt", {"name": "greet"})):
            assert kind_of(await agent.call(f"books__{tool}", **arguments)) == "denied"
        await ear.hear("heard", method="tools/list")
        heard = {row.get("method") for row in ear.kept}
        assert not heard & {method for method, _, _ in asked}, "nothing has reached the server"


async def test_what_is_done_is_in_the_journal_under_its_method(home: Home, real_clock: None) -> None:
    async with library(home) as (stage, _):
        agent = await stage.attach()
        await agent.ask("resources/read", {"uri": "mcpd://books/note:///1"})
        await agent.ask("prompts/get", {"name": "books__greet"})
        await agent.call("books__read_resource", uri="note:///1")
        await agent.call("books__list_prompts")
        # These two come to their servers by words of mcpd's own, together with those of other agents.
        await agent.ask("resources/unsubscribe", {"uri": "mcpd://books/note:///1"})
        await agent.ask("logging/setLevel", {"level": "error"})
        found = [(entry.method, entry.tool) for entry in await stage.journal(outcome="ok")]
        assert found == [
            ("logging/setLevel", ""),
            ("resources/unsubscribe", "read_resource"),
            ("prompts/list", "list_prompts"),
            ("resources/read", "read_resource"),
            ("prompts/get", "get_prompt"),
            ("resources/read", "read_resource"),
        ]


@pytest.mark.parametrize(
    ("lists", "resources", "prompts"),
    [
        ('denied_tools = ["books__read_resource"]', False, True),
        ('denied_tools = ["*__get_*"]', True, False),
        ('allowed_tools = ["books__read_*"]', True, False),
        ('allowed_tools = ["books__echo"]', False, False),
        ('allowed_tools = ["books__get_prompt"]', False, True),
        ("allowed_tools = []", False, False),
    ],
)
@pytest.mark.parametrize("alone", [False, True])
async def test_what_an_agent_may_not_use_does_not_exist_for_it_a29(
    home: Home, real_clock: None, lists: str, resources: bool, prompts: bool, alone: bool
) -> None:
    write_config(home, f"[agents.reader]\n{lists}\n")
    async with library(home) as (stage, _):
        may_attach = lists != "allowed_tools = []"
        if alone and not may_attach:
            return
        agent = await stage.attach("reader", **({"server": "books"} if alone else {}))
        assert bool(await uris(agent)) is resources
        assert bool(await everything(agent, "resources/templates/list", "resourceTemplates")) is resources
        assert bool(await everything(agent, "prompts/list", "prompts")) is prompts
        uri, name = ("note:///1", "greet") if alone else ("mcpd://books/note:///1", "books__greet")
        for method in ("resources/read", "resources/subscribe"):
            if resources:
                await agent.ask(method, {"uri": uri})
            else:
                assert (await agent.refusal(method, {"uri": uri})).kind == "no_such_resource"
        if prompts:
            await agent.ask("prompts/get", {"name": name})
        else:
            assert (await agent.refusal("prompts/get", {"name": name})).kind == "no_such_prompt"


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_verdicts_on_native_methods_are_errors_with_a_kind(
    home: Home, real_clock: None, revision: str
) -> None:
    """D13 makes results of them for tools; a read has no isError."""
    write_server(home, "sad", **tiny("--refuse"))
    async with library(home) as (stage, _):
        agent = await stage.attach(revision=revision)
        refused = await agent.refusal("resources/read", {"uri": "mcpd://sad/x:y"})
        assert refused.kind == "unavailable"
        assert refused.data["hint"]
        refused = await agent.refusal("prompts/get", {"name": "sad__x"})
        assert refused.kind == "unavailable", "b26"


def late(flag: Path, **fields: Any) -> dict[str, Any]:
    """A library that opens only once the flag exists."""
    real = library_server()
    script = f"until test -e {flag}; do sleep 0.05; done; exec " + '"$@"'
    return {**real, "command": "sh", "args": ["-c", script, "sh", real["command"], *real["args"]], **fields}


@pytest.mark.parametrize("method", ["resources/read", "resources/subscribe", "prompts/get"])
@pytest.mark.parametrize("denial", ["policy", "list"])
async def test_what_waited_for_its_server_is_decided_by_what_counts_then(
    home: Home, real_clock: None, denial: str, method: str
) -> None:
    """a01, a29: the decision is the one that holds when the request would be sent."""
    flag = home.root / "flag"
    flag.touch()
    write_server(home, "books", **late(flag))
    async with staged(home) as stage:
        await uris(await stage.attach())
    flag.unlink()
    async with staged(home) as stage:
        agent, operator = await stage.attach(), await stage.operator()
        params = {"name": "books__greet"} if method == "prompts/get" else {"uri": "mcpd://books/note:///1"}
        await agent.send(method, params, 1)
        await stage.until("status", lambda: stage.broker.fleet.find("books").status.pid > 0)
        if denial == "policy":
            write_server(home, "books", **late(flag, default_policy={"approval": "deny"}))
        else:
            write_config(home, '[agents.default]\ndenied_tools = ["books__*"]\n')
        await operator.call("daemon.reload")
        flag.touch()
        kind = (await agent.answer(1))["error"]["data"]["kind"]
        gone = "no_such_prompt" if method == "prompts/get" else "no_such_resource"
        assert kind == ("denied" if denial == "policy" else gone)
        assert stage.broker.fleet.find("books").wishes._watched == {}


# --------------------------------------------------------------------- wrappers


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_wrapper_tools_follow_what_a_server_advertises(
    home: Home, real_clock: None, revision: str, era: str
) -> None:
    async with library(home, era) as (stage, _):
        agent = await stage.attach(revision=revision)
        wrappers = [
            name
            for name in await agent.tools()
            if name.endswith(("resources", "resource", "prompts", "prompt"))
        ]
        assert wrappers == [
            f"books__{name}" for name in ("list_resources", "read_resource", "list_prompts", "get_prompt")
        ]
        listed = text_of(await agent.call("books__list_resources"))
        assert "mcpd://books/note:///1" in listed
        assert "mcpd://books/note:///{id}" in listed
        for uri in ("note:///1", "mcpd://books/note:///1"):
            assert text_of(await agent.call("books__read_resource", uri=uri)) == "note 1"
        assert (
            text_of(await agent.call("books__read_resource", uri="blob:///b"))
            == "[binary image/png: ~5 bytes]"
        )
        assert "review(code*, style)" in text_of(await agent.call("books__list_prompts"))
        for name in ("review", "books__review"):
            got = await agent.call("books__get_prompt", name=name, arguments={"code": "x"})
            assert text_of(got).startswith("[user] review [('code', 'x')]\n[assistant] ")
            check(revision, "CallToolResult", got)


async def test_wrappers_take_their_arguments_and_nothing_else(home: Home, real_clock: None) -> None:
    async with library(home) as (stage, _):
        agent = await stage.attach()
        asked: list[tuple[str, dict[str, Any]]] = [
            ("list_resources", {"x": 1}),
            ("read_resource", {}),
            ("read_resource", {"uri": 1}),
            ("get_prompt", {"name": "greet", "arguments": [1]}),
            ("get_prompt", {"arguments": {}}),
        ]
        for tool, arguments in asked:
            params: dict[str, Any] = {"name": f"books__{tool}", "arguments": arguments}
            assert (await agent.refusal("tools/call", params)).code == -32602
        params = {"name": "books__read_resource", "arguments": {"uri": "note:///x"}}
        assert (await agent.refusal("tools/call", params)).message == "no such note"


async def test_links_in_a_result_can_be_read(home: Home, real_clock: None) -> None:
    async with library(home) as (stage, _):
        agent = await stage.attach()
        link, embedded = (await agent.call("books__links"))["content"]
        assert embedded["resource"]["uri"] == "mcpd://books/note:///2"
        read = await agent.ask("resources/read", {"uri": link["uri"]})
        assert read["contents"][0]["text"] == "note 1"
        alone = await stage.attach(server="books")
        assert (await alone.call("links"))["content"][0]["uri"] == "note:///1"


# ----------------------------------------------------------------- capabilities


@pytest.mark.parametrize("options", [("--bare",), ()])
@pytest.mark.parametrize("revision", REVISIONS)
async def test_of_one_server_alone_what_it_has_is_declared(
    home: Home, real_clock: None, revision: str, options: tuple[str, ...]
) -> None:
    async with library(home, *options) as (stage, _):
        agent = stage.connect(revision=revision)
        await agent.send("notifications/dev.mcpd/attach", {"server": "books"})
        told = await (agent.ask("server/discover") if agent.modern else agent.initialize())
        changes = {"listChanged": True}
        if options:
            assert told["capabilities"] == {"tools": changes, "resources": changes}
        else:
            completions: dict[str, Any] = {} if revision == "2024-11-05" else {"completions": {}}
            assert told["capabilities"] == {
                "tools": changes,
                "resources": {"subscribe": True, **changes},
                "prompts": changes,
                "logging": {},
                **completions,
            }


async def test_a_server_that_does_not_come_up_does_not_hold_up_initialize(
    home: Home, real_clock: None
) -> None:
    write_server(home, "sad", **tiny("--refuse"))
    async with library(home) as (stage, _):
        agent = stage.connect()
        await agent.send("notifications/dev.mcpd/attach", {"server": "sad"})
        assert set((await agent.initialize())["capabilities"]) == {
            "tools",
            "resources",
            "prompts",
            "completions",
            "logging",
            "tasks",
        }, "nothing is known, so nothing is ruled out"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_what_one_server_alone_does_not_have_is_not_served(
    home: Home, real_clock: None, revision: str
) -> None:
    """As it would not be by the server itself: what is not declared is an unknown method (5.1)."""
    asked: dict[str, dict[str, Any]] = {
        "resources/list": {},
        "resources/templates/list": {},
        "resources/read": {"uri": "note:///1"},
        "resources/subscribe": {"uri": "note:///1"},
        "resources/unsubscribe": {"uri": "note:///1"},
        "prompts/list": {},
        "prompts/get": {"name": "greet"},
        "completion/complete": {
            "ref": {"type": "ref/prompt", "name": "greet"},
            "argument": {"name": "a", "value": ""},
        },
        "logging/setLevel": {"level": "info"},
    }
    async with library(home) as (stage, _):
        alone = await stage.attach(revision=revision, server="tiny")
        await alone.tools()
        for method, params in asked.items():
            assert (await alone.refusal(method, params)).code == -32601, method
        both = await stage.attach(revision=revision)
        assert len((await both.ask("resources/list"))["resources"]) == len(NOTES)


async def test_logs_are_declared_without_a_handshake_while_a_server_has_them(
    home: Home, real_clock: None
) -> None:
    async with library(home) as (stage, _):
        agent = await stage.attach(revision=MODERN)
        await agent.tools()
        assert "logging" in (await agent.ask("server/discover"))["capabilities"]
        only_tiny = await stage.attach(revision=MODERN, without=["books"])
        await only_tiny.tools()
        told = (await only_tiny.ask("server/discover"))["capabilities"]
        assert "logging" not in told
        assert told["prompts"] == {"listChanged": True}
