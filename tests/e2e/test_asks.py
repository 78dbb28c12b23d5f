"""Servers that ask, with the official SDK on both sides of a real daemon, in all pairs of eras (n03)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.e2e.harness import OPEN, Daemon

CHECKOUT = Path(__file__).parents[2]


class Person:
    """Who answers, as the SDK's callbacks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[str] = []

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params.message)
        wanted = params.requested_schema["properties"]
        content: dict[str, Any] = {
            key: True if field["type"] == "boolean" else self.name for key, field in wanted.items()
        }
        return types.ElicitResult(action="accept", content=content)

    async def sample(self, context: Any, params: Any) -> types.CreateMessageResult:
        self.asked.append("sampling")
        content = types.TextContent(type="text", text=f"Hi {self.name}")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async def roots(self, context: Any) -> types.ListRootsResult:
        self.asked.append("roots")
        root = types.Root.model_validate({"uri": f"file:///{self.name}"})
        return types.ListRootsResult(roots=[root])

    def client(self, daemon: Daemon, mode: Literal["legacy", "auto"]) -> Client:
        bridge = StdioServerParameters(
            command=sys.executable, args=["-I", "-m", "mcpctl", "bridge"], env=daemon.environ
        )
        return Client(
            bridge,
            mode=mode,
            elicitation_callback=self.elicit,
            sampling_callback=self.sample,
            list_roots_callback=self.roots,
        )


def fixture(*options: str) -> dict[str, Any]:
    script = f"import sys; sys.path.insert(0, {str(CHECKOUT)!r}); sys.argv[1:] = {list(options)!r}; "
    script += "from tests.conformance.fixture.__main__ import main; main()"
    return {
        "command": sys.executable,
        "args": ["-c", script],
        "default_policy": OPEN,
        "sampling": True,
        "roots": "agent",
        # Its SDK knows both eras, and once it was probed for the newer one it does not go back.
        "protocol": "legacy" if "--legacy" in options else "auto",
    }


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_agents_of_either_era_are_asked(
    real_clock: None, daemon: Daemon, mode: Literal["legacy", "auto"]
) -> None:
    daemon.server("old", fixture("--legacy"))
    daemon.server("new", fixture())
    daemon.start()
    ann = Person("ann")
    async with ann.client(daemon, mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        for server in ("old", "new"):
            for tool, said, asked in (
                ("elicitation", "Hello, ann!", [f"[{server}, untrusted] What is your name?"]),
                ("sampling", "Hi ann", ["sampling"]),
                ("list_roots", "file:///ann", ["roots"]),
                ("request_state", "state-ok", None),
                ("multiple_inputs", "Hi ann (1 roots)", None),
                ("multi_round", "both answered", None),
            ):
                ann.asked.clear()
                result = await client.call_tool(f"{server}__test_input_required_result_{tool}", {})
                assert isinstance(result, types.CallToolResult)
                assert not result.is_error, result
                assert getattr(result.content[0], "text", "") == said
                if asked is not None and not (tool == "list_roots" and mode == "legacy" and server == "new"):
                    assert ann.asked == asked
    told = daemon.ask("servers.get", server="old")
    assert told["told"] == ["elicitation.form", "elicitation.url", "sampling", "roots"]


async def test_two_agents_of_one_process(real_clock: None, daemon: Daemon) -> None:
    """Each is asked about its own calls alone; the other's capabilities are not borrowed."""
    daemon.server("old", fixture("--legacy"))
    daemon.start()
    ann, bob = Person("ann"), Person("bob")
    async with ann.client(daemon, "legacy") as first, bob.client(daemon, "auto") as second:
        for _ in range(3):
            for client, person in ((first, ann), (second, bob)):
                result = await client.call_tool("old__test_input_required_result_elicitation", {})
                assert getattr(result.content[0], "text", "") == f"Hello, {person.name}!"
    assert len(ann.asked) == len(bob.asked) == 3
