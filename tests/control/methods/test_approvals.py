"""`approvals.*`: a31, n05, n07."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Home
from tests.control.world import Client, library, running, tiny, write_config, write_server

ASKS = {"approval": "unless_auto_approved", "risk": "medium"}


async def asked(client: Client, **arguments: Any) -> str:
    """The id of the question about a call of the operator's."""
    params = {"name": "tiny__echo", "arguments": arguments, "patience": 0}
    refused = await client.refusal("tools.call", **params)
    assert refused.kind == "pending"
    name = refused.data["approval"]
    assert isinstance(name, str)
    return name


def prepare(home: Home) -> None:
    write_server(home, "tiny", **{**tiny(), "default_policy": ASKS})


async def test_a_question_is_listed_shown_and_answered(home: Home, real_clock: None) -> None:
    prepare(home)
    async with running(home) as world:
        client = await world.operator()
        assert await client.call("approvals.list") == {"approvals": [], "unused": [], "muted": []}
        name = await asked(client, text="hi\u202e", path="/tmp/x", n=1.0)
        (shown,) = (await client.call("approvals.list"))["approvals"]
        assert (shown["id"], shown["agent"], shown["server"], shown["tool"]) == (name, "", "tiny", "echo")
        assert (shown["name"], shown["risk"], shown["once_only"]) == ("tiny__echo", "medium", False)
        assert shown["runs"].endswith("tiny.py")
        assert shown["description"] == "The tool echo."
        assert 890 < shown["left"] <= 900
        assert [(each["kind"], each["name"], each["value"]) for each in shown["arguments"]] == [
            ("path", "path", "/tmp/x"),
            ("", "text", "hi<U+202E>"),
            ("", "n", "1.0"),
        ]
        assert shown["arguments"][1]["hidden"] == ["1 hidden (bidirectional)"]
        assert not shown["cut"]
        details = await client.call("approvals.get", id=name)
        assert details["text"] == {"text": "hi\u202e", "path": "/tmp/x", "n": 1.0}
        assert {**shown, "left": 0} == {
            **{key: value for key, value in details.items() if key not in ("text", "long")},
            "left": 0,
        }
        answer = await client.call("approvals.approve", id=name)
        assert (answer["outcome"], answer["waiting"]) == ("approved", 0)
        (yes,) = (await client.call("approvals.list"))["unused"]
        assert (yes["id"], yes["name"]) == (name, "tiny__echo")
        params = {"text": "hi\u202e", "path": "/tmp/x", "n": 1.0}
        called = await client.call("tools.call", name="tiny__echo", arguments=params)
        assert called["result"]["content"][0]["text"].startswith("hi")
        assert (await client.refusal("tools.call", name="tiny__echo", arguments=params, patience=0)).kind == (
            "pending"
        )


@pytest.mark.parametrize("said", ["", "true", "false"])
async def test_whether_trust_would_change_anything_is_said(home: Home, real_clock: None, said: str) -> None:
    """By `mcpctl trust` or by config.toml; where that says false, trust is refused."""
    prepare(home)
    if said:
        write_config(home, f"[overrides.tiny]\ntrusted = {said}\n")
    async with running(home) as world:
        client = await world.operator()
        name = await asked(client, text="a")
        assert (await client.call("approvals.get", id=name))["trustable"] is (said == "")
        if not said:
            await client.call("servers.trust", server="tiny")
            name = await asked(client, text="a")
            (shown,) = (await client.call("approvals.list"))["approvals"]
            assert shown["trustable"] is False


async def test_a_call_that_waits_goes_on(home: Home, real_clock: None) -> None:
    prepare(home)
    async with running(home) as world:
        caller, person = await world.operator(), await world.operator()
        await person.call("events.subscribe", topics=["approvals"])
        await caller.send("tools.call", name="tiny__echo", arguments={"text": "a"})
        event = await person.event()
        assert event["topic"] == "approvals"
        (shown,) = (await person.call("approvals.list"))["approvals"]
        assert shown["id"] == event["data"]
        assert shown["waiting"] == 1
        assert (await person.call("daemon.status"))["approvals"] == 1
        answer = await person.call("approvals.approve", id=shown["id"])
        assert answer["waiting"] == 1
        assert (await caller.read())["result"]["result"]["content"][0]["text"] == "a"
        assert (await person.call("daemon.status"))["approvals"] == 0


async def test_the_time_for_a_person_is_not_the_servers(home: Home, real_clock: None) -> None:
    prepare(home)
    async with running(home) as world:
        caller, person = await world.operator(), await world.operator()
        await person.call("events.subscribe", topics=["approvals"])
        await caller.send(
            "tools.call", name="tiny__echo", arguments={"text": "a"}, timeout=0.001, patience=30
        )
        await person.call("approvals.approve", id=(await person.event())["data"])
        assert (await caller.read())["result"]["result"]["content"][0]["text"] == "a"


async def test_a_yes_is_taken_back(home: Home, real_clock: None) -> None:
    prepare(home)
    async with running(home) as world:
        client = await world.operator()
        name = await asked(client, text="a")
        await client.call("approvals.approve", id=name)
        assert (await client.call("approvals.deny", id=name))["outcome"] == "denied"
        assert (await client.call("approvals.list"))["unused"] == []
        refused = await client.refusal("tools.call", name="tiny__echo", arguments={"text": "a"})
        assert refused.kind == "denied"


async def test_a_no(home: Home, real_clock: None) -> None:
    prepare(home)
    async with running(home) as world:
        client = await world.operator()
        name = await asked(client, text="a")
        assert (await client.call("approvals.deny", id=name))["outcome"] == "denied"
        refused = await client.refusal("tools.call", name="tiny__echo", arguments={"text": "a"})
        assert refused.kind == "denied"
        for method in ("get", "approve", "deny"):
            assert (await client.refusal(f"approvals.{method}", id=name)).kind == "no_such_approval"


async def test_what_is_long_is_approved_by_whoever_was_shown_all_of_it(home: Home, real_clock: None) -> None:
    """n07: a harm at the end of 200 kB is on the card; what lies in the middle is seen before a yes."""
    prepare(home)
    hidden = "".join(chr(0xE0000 + ord(c)) for c in "send it to me")
    long = "a" * 100_000 + hidden + "a" * 100_000 + "rm -rf ~"
    async with running(home) as world:
        client = await world.operator()
        name = await asked(client, text=long)
        (shown,) = (await client.call("approvals.list"))["approvals"]
        (argument,) = shown["arguments"]
        assert (shown["cut"], shown["seen"]) == (True, "")
        assert argument["left_out"] > 190_000
        assert argument["value"].endswith("rm -rf ~")
        assert argument["hidden"] == ["13 hidden (tag), which say 'send it to me'"]
        assert (await client.refusal("approvals.approve", id=name)).kind == "refused"
        details = await client.call("approvals.get", id=name)
        (argument,) = details["arguments"]
        assert argument["left_out"] == 0
        assert "".join(f"<U+{ord(c):04X}>" for c in hidden) in argument["value"]
        assert (await client.refusal("approvals.approve", id=name, seen="x")).kind == "refused"
        answer = await client.call("approvals.approve", id=name, seen=details["seen"])
        assert answer["outcome"] == "approved"


async def test_mute_and_unmute(home: Home, real_clock: None) -> None:
    prepare(home)
    async with running(home) as world:
        client = await world.operator()
        await asked(client, text="a")
        assert await client.call("approvals.mute", agent="") == {}
        found = await client.call("approvals.list")
        assert (found["approvals"], found["muted"]) == ([], [{"agent": "", "left": None}])
        refused = await client.refusal("tools.call", name="tiny__echo", arguments={"text": "b"})
        assert refused.kind == "busy"
        assert await client.call("approvals.unmute", agent="") == {"agent": "", "was_muted": True}
        await asked(client, text="b")
        for method in ("mute", "unmute"):
            assert (await client.refusal(f"approvals.{method}", agent="nobody")).kind == "no_such_agent"


async def test_a_list_can_be_one_agents(home: Home, real_clock: None) -> None:
    prepare(home)
    async with running(home) as world:
        client = await world.operator()
        await asked(client, text="a")
        assert len((await client.call("approvals.list", agent=""))["approvals"]) == 1
        assert (await client.call("approvals.list", agent="default"))["approvals"] == []


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources.read", {"uri": "note:///1", "server": "books"}),
        ("prompts.get", {"name": "books__greet"}),
    ],
)
async def test_reads_and_prompts_wait_as_well(
    home: Home, real_clock: None, method: str, params: dict[str, Any]
) -> None:
    write_server(home, "books", **{**library(), "default_policy": ASKS})
    async with running(home) as world:
        client = await world.operator()
        refused = await client.refusal(method, **params, patience=0)
        assert refused.kind == "pending"
        (shown,) = (await client.call("approvals.list"))["approvals"]
        assert shown["method"] == method.replace(".", "/")
        assert shown["arguments"]
        await client.call("approvals.approve", id=refused.data["approval"])
        assert (await client.call(method, **params))["server"] == "books"
