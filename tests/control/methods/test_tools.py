from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Home
from tests.control.world import running, tiny, write_config, write_server


async def test_list_connects_and_shows_names_and_policy_d5(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        listed = await (await world.operator()).call("tools.list")
    echo = listed["tools"][0]
    assert echo == {
        "server": "tiny",
        "tool": "echo",
        "name": "tiny__echo",
        "title": "",
        "description": "The tool echo.",
        "risk": "high",  # untrusted (b11)
        "approval": "never",
        "annotations": {"readOnlyHint": True},
        "held": "",
    }
    assert [tool["tool"] for tool in listed["tools"]] == [
        "echo",
        "add",
        "sleep",
        "crash",
        "env",
        "big",
        "fail",
    ]
    assert listed["left_out"] == []
    assert listed["next_cursor"] == ""


async def test_list_says_which_servers_are_missing_and_why(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    write_server(home, "sad", **tiny("--refuse"))
    write_server(home, "off", **tiny(), enabled=False)
    async with running(home) as world:
        client = await world.operator()
        listed = await client.call("tools.list")
        assert {tool["server"] for tool in listed["tools"]} == {"tiny"}
        [missing] = listed["left_out"]
        assert '"sad" is failed' in missing
        assert (await client.refusal("tools.list", server="sad")).kind == "unavailable"
        assert (await client.refusal("tools.list", server="off")).kind == "disabled"
        assert (await client.refusal("tools.list", server="nobody")).kind == "no_such_server"
        assert (await client.refusal("tools.list", agent="nobody")).kind == "no_such_agent"


async def test_an_agents_list_lacks_nothing_of_servers_that_it_may_not_use(
    home: Home, real_clock: None
) -> None:
    write_config(home, '[agents.reader]\nallowed_tools = ["tiny__*"]\n')
    write_server(home, "tiny", **tiny())
    write_server(home, "sad", **tiny("--refuse"))
    async with running(home) as world:
        client = await world.operator()
        [missing] = (await client.call("tools.list"))["left_out"]
        assert '"sad" is failed' in missing
        assert (await client.call("tools.list", agent="reader"))["left_out"] == []


async def test_list_for_an_agent_shows_what_it_may_use_a29(home: Home, real_clock: None) -> None:
    agents = """
        [agents.reader]
        allowed_tools = ["tiny__e*"]
        spelling = "mcp_server_tool"
        [agents.nothing]
        allowed_tools = []
    """
    write_config(home, agents)
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        client = await world.operator()
        assert (await client.call("tools.list", agent="nothing"))["tools"] == []
        for more in ({}, {"server": "tiny"}):
            listed = await client.call("tools.list", agent="reader", **more)
            assert [tool["name"] for tool in listed["tools"]] == ["mcp_tiny_echo", "mcp_tiny_env"]


async def test_long_lists_come_in_pages_of_500_b24(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny("--tools", "600"))
    async with running(home) as world:
        client = await world.operator()
        first = await client.call("tools.list")
        second = await client.call("tools.list", cursor=first["next_cursor"])
        assert (len(first["tools"]), len(second["tools"])) == (500, 107)
        assert second["next_cursor"] == ""
        names = {tool["name"] for page in (first, second) for tool in page["tools"]}
        assert len(names) == 607
        for cursor in ("x", "500", "500.999999", "-1.1"):
            assert (await client.refusal("tools.list", cursor=cursor)).kind == "invalid_params"


async def test_a_list_that_changes_between_its_pages_goes_on(home: Home, real_clock: None) -> None:
    """`mcpctl add` lists while catalogues are still being published."""
    write_server(home, "tiny", **tiny("--tools", "600"))
    async with running(home) as world:
        client = await world.operator()
        first = await client.call("tools.list")
        write_server(home, "early", **tiny())
        await client.call("daemon.reload")
        assert (await client.call("servers.test", server="early"))["ok"]
        second = await client.call("tools.list", cursor=first["next_cursor"], server="tiny")
        found = [tool["name"] for page in (first, second) for tool in page["tools"]]
        assert len(found) == len(set(found)) == 607
        await client.call("servers.remove", server="tiny")
        assert (await client.refusal("tools.list", cursor=first["next_cursor"])).kind == "invalid_params"


async def test_describe_gives_definition_and_because(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        client = await world.operator()
        by_pair = await client.call("tools.describe", server="tiny", tool="add")
        assert by_pair == await client.call("tools.describe", name="tiny__add")
    assert by_pair["definition"] == {
        "name": "add",
        "description": "The tool add.",
        "inputSchema": {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
    }
    assert by_pair["approval"] == "never"
    assert by_pair["timeout"] == 60.0
    assert any("default_policy" in rule for rule in by_pair["because"])
    assert any(rule.endswith('server "tiny" is untrusted') for rule in by_pair["because"]), (
        "no number of a rule"
    )


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        ({}, "invalid_params"),
        ({"server": "tiny"}, "invalid_params"),
        ({"tool": "add"}, "invalid_params"),
        ({"name": "tiny__add", "server": "tiny", "tool": "add"}, "invalid_params"),
        ({"name": "tiny__add", "server": "tiny"}, "invalid_params"),
        ({"name": "tiny__nothing"}, "no_such_tool"),
        ({"name": "nobody__add"}, "no_such_tool"),
        ({"server": "tiny", "tool": "nothing"}, "no_such_tool"),
        ({"server": "tiny", "tool": "tiny__add"}, "no_such_tool"),
        ({"server": "nobody", "tool": "add"}, "no_such_server"),
        ({"server": "off", "tool": "add"}, "disabled"),
        ({"name": "off__add"}, "disabled"),
        ({"server": "sad", "tool": "add"}, "unavailable"),
    ],
)
async def test_tools_that_cannot_be_found(
    home: Home, real_clock: None, wanted: dict[str, Any], kind: str
) -> None:
    write_server(home, "tiny", **tiny())
    write_server(home, "off", **tiny(), enabled=False)
    write_server(home, "sad", **tiny("--refuse"))
    async with running(home) as world:
        client = await world.operator()
        assert (await client.refusal("tools.describe", **wanted)).kind == kind
        assert (await client.refusal("tools.call", **wanted)).kind == kind


async def test_call_gives_the_servers_result(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        called = await (await world.operator()).call(
            "tools.call", name="tiny__add", arguments={"a": 2, "b": 3}
        )
        assert called["result"]["content"] == [{"type": "text", "text": "5"}]
        assert (called["server"], called["tool"]) == ("tiny", "add")
        assert called["duration"] > 0


async def test_a_tools_own_error_is_a_result_c18(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        called = await (await world.operator()).call("tools.call", server="tiny", tool="fail")
    assert called["result"]["isError"] is True


async def test_verdicts_are_typed_errors_here_d13(home: Home, real_clock: None) -> None:
    write_config(
        home,
        "[defaults]\napproval_wait = '50ms'\n"
        "[tool_policies]\n'tiny__env' = { approval = 'deny' }\n'tiny__big' = { approval = 'always' }\n",
    )
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        client = await world.operator()
        for tool, verdict in (("env", ("denied", 1010)), ("big", ("pending", 1011))):
            refused = await client.refusal("tools.call", server="tiny", tool=tool, arguments={})
            assert (refused.kind, refused.code) == verdict
        assert (await client.refusal("tools.call", server="tiny", tool="crash")).kind == "outcome_unknown"


async def test_the_operators_limit_ends_a_call(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        refused = await (await world.operator()).refusal(
            "tools.call", server="tiny", tool="sleep", arguments={"seconds": 0.5}, timeout=0.1
        )
    assert refused.kind == "timed_out"


@pytest.mark.parametrize("arguments", [b"[]", b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":"\\ud800"}'])
async def test_arguments_with_two_meanings_are_refused_b29(
    home: Home, real_clock: None, arguments: bytes
) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        client = await world.operator()
        line = (
            b'{"jsonrpc":"2.0","id":1,"method":"tools.call","params":{"name":"tiny__echo","arguments":'
            + arguments
            + b"}}\n"
        )
        await client.stream.send_all(line)
        error = (await client.read())["error"]
    assert error["data"]["kind"] in ("invalid_params", "parse_error")
    assert json.dumps(error)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("tiny_add", "tiny__add"),
        ("tnyi__add", "tiny__add"),
        ("add", "tiny__add"),
        ("nothing_like_it_at_all", ""),
    ],
)
async def test_the_tool_that_was_meant_is_named(home: Home, real_clock: None, name: str, meant: str) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        client = await world.operator()
        await client.call("tools.list")
        refused = await client.refusal("tools.describe", name=name)
        assert (f'did you mean "{meant}"?' in refused.message) == bool(meant)
