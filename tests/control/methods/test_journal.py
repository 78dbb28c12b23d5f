"""`journal.query` through the socket."""

from __future__ import annotations

import ast
import re
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

import mcpd
from mcpd.api.journal import Outcome
from mcpd.consent import questions
from mcpd.errors import KINDS
from mcpd.protocol.input import Elicited
from tests.conftest import Home
from tests.control.world import Client, running
from tests.journal.flat import entry


async def test_a_query_tells_what_was_recorded_and_where_to_go_on(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        journal = world.broker.journal
        await world.nursery.start(journal.run)
        operator = await world.operator()
        for number in range(1, 6):
            journal.record(entry(at=1e9 + number, tool=f"t{number}", agent="a", risk="high"))
        page = await operator.call("journal.query", limit=2, tool="t*")
        assert [(each["id"], each["tool"], each["risk"]) for each in page["entries"]] == [
            (5, "t5", "high"),
            (4, "t4", "high"),
        ]
        rest = await operator.call("journal.query", before=page["next"])
        assert ([each["id"] for each in rest["entries"]], rest["next"]) == ([3, 2, 1], 0)
        assert rest["problems"] == []


async def test_who_follows_is_told_as_it_happens(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        journal = world.broker.journal
        await world.nursery.start(journal.run)
        operator = await world.operator()
        journal.record(entry(tool="old"))
        [old] = (await operator.call("journal.query", limit=1))["entries"]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_follow, operator, old["id"])
            # This one wakes the query for nothing.
            journal.record(entry(tool="of another", agent="other"))
            while len((await journal.query()).entries) < 2:
                await trio.lowlevel.checkpoint()
            journal.record(entry(tool="new", agent="mine"))


async def _follow(operator: Client, after: int) -> None:
    page = await operator.call("journal.query", after=after, agent="mine", wait=20)
    assert [(each["tool"], each["id"]) for each in page["entries"]] == [("new", after + 2)]
    assert page["next"] >= after + 2


async def test_nothing_new_is_an_answer_too(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        await world.nursery.start(world.broker.journal.run)
        world.broker.journal.record(entry())
        operator = await world.operator()
        assert len((await operator.call("journal.query"))["entries"]) == 1
        page = await operator.call("journal.query", after=1, wait=0.05)
        assert (page["entries"], page["next"]) == ([], 1)


@pytest.mark.parametrize(
    "params",
    [
        {"limit": 0},
        {"limit": 501},
        {"kinds": ["odd"]},
        {"outcomes": ["x" * 201]},
        {"wait": 61},
        {"text": "x" * 201},
        {"before": -1},
    ],
)
async def test_conditions_that_cannot_be_are_refused(
    home: Home, real_clock: None, params: dict[str, object]
) -> None:
    async with running(home) as world:
        refused = await (await world.operator()).refusal("journal.query", **params)
        assert refused.kind == "invalid_params"


def test_whatever_is_recorded_can_be_asked_for() -> None:
    actions = typing.get_args(typing.get_type_hints(Elicited)["action"])
    written = {word for path in Path(mcpd.__file__).parent.rglob("*.py") for word in _outcomes(path)}
    assert {"ok", "tool_error", "unread", "pinned", "revoked", "held", "cancelled"} <= written
    said = {"", *written, *KINDS, *typing.get_args(questions.Outcome), *actions}
    assert set(typing.get_args(Outcome)) == said


def _outcomes(path: Path) -> Iterator[str]:
    """The words that a module records: what is given to a function of that name, and what is called so."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if "record" in name:
                yield from _words(*node.args[2:])  # behind whose it is and what it is about
            case ast.Call(func=ast.Name(id="Settled")):
                yield from _words(*node.args)
            case ast.keyword(arg="outcome") | ast.Assign(targets=[ast.Name(id="outcome")]):
                yield from _words(node.value)
            case ast.Assign(targets=[ast.Attribute(attr="outcome")]):
                yield from _words(node.value)


def _words(*nodes: ast.expr) -> Iterator[str]:
    """Texts of one word among them; not what is handed to a function in turn."""
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)) if re.fullmatch("[a-z_]+", text):
                yield text
            case ast.IfExp():
                yield from _words(node.body, node.orelse)
