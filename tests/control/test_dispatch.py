from __future__ import annotations

import inspect
import typing

import msgspec
import pytest

from mcpd.control import dispatch, methods
from mcpd.control.dispatch import EVERYWHERE, METHODS
from mcpd.errors import KINDS, Failure, ServerError
from tests.conftest import Home
from tests.control import regenerate
from tests.control.world import running

#: The access of every method (n06), by what it can change; a new method must be put here by a person.
ACCESS = {
    "hello": "read",
    "daemon.status": "read",
    "daemon.describe": "read",
    "daemon.reload": "widen",
    "daemon.stop": "narrow",
    "servers.list": "read",
    "servers.get": "read",
    "servers.add": "widen",
    "servers.remove": "narrow",
    "servers.enable": "widen",
    "servers.disable": "narrow",
    "servers.reconnect": "narrow",
    "servers.trust": "widen",
    "servers.untrust": "narrow",
    "servers.review": "read",
    "servers.accept": "widen",
    "servers.test": "read",
    "servers.logs": "read",
    "tools.list": "read",
    "tools.describe": "read",
    "tools.call": "narrow",
    "resources.list": "read",
    "resources.read": "narrow",
    "prompts.list": "read",
    "prompts.get": "narrow",
    "approvals.list": "read",
    "approvals.get": "read",
    "approvals.approve": "widen",
    "approvals.deny": "narrow",
    "approvals.mute": "narrow",
    "approvals.unmute": "widen",
    "grants.list": "read",
    "grants.add": "widen",
    "grants.revoke": "narrow",
    "config.check": "read",
    "agents.list": "read",
    "agents.get": "read",
    "agents.add": "widen",
    "agents.remove": "widen",
    "agents.allow": "widen",
    "agents.deny": "narrow",
    "agents.max_risk": "widen",
    "agents.sessions": "read",
    "sessions.switch": "narrow",
    "pins.list": "read",
    "pins.diff": "read",
    "pins.flags": "read",
    "pins.accept": "widen",
    "policy.explain": "read",
    "policy.replay": "read",
    "endpoint.status": "read",
    "endpoint.enable": "widen",
    "endpoint.disable": "narrow",
    "endpoint.token": "widen",
    "endpoint.revoke": "narrow",
    "journal.query": "read",
    "passphrase.status": "read",
    "passphrase.prove": "narrow",
    "passphrase.set": "widen",
    "passphrase.remove": "widen",
    "events.subscribe": "read",
}


def test_every_method_has_its_access_n06() -> None:
    assert {name: row.access for name, row in METHODS.items()} == ACCESS


@pytest.mark.parametrize("name", METHODS)
def test_a_row_says_what_its_handler_does(name: str) -> None:
    row = METHODS[name]
    hints = typing.get_type_hints(row.handler)
    assert hints["params"] is row.params
    assert hints["return"] is row.result
    assert inspect.iscoroutinefunction(row.handler)
    assert row.params.__struct_config__.forbid_unknown_fields
    assert row.params.__struct_config__.frozen
    assert row.doc
    assert set(row.errors.split()) | set(EVERYWHERE) <= KINDS.keys()


def test_every_handler_has_a_row() -> None:
    rows = {row.handler for row in METHODS.values()}
    for module in (methods.daemon, methods.events, methods.servers, methods.tools):
        for name, found in inspect.getmembers(module, inspect.iscoroutinefunction):
            if found.__module__ == module.__name__ and not name.startswith("_"):
                assert found in rows, f"{module.__name__}.{name}"


def test_the_api_has_not_changed_unseen() -> None:
    assert regenerate.text() == regenerate.COPY.read_bytes(), "run: python -m tests.control.regenerate"


def test_every_reference_of_the_description_leads_somewhere() -> None:
    described = dispatch.description()
    references = [
        value
        for found in _walk(msgspec.to_builtins(described))
        for key, value in found.items()
        if key == "$ref"
    ]
    assert references
    for reference in references:
        assert reference.removeprefix("#/components/") in described.components


def _walk(value: object) -> typing.Iterator[dict[str, typing.Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _walk(item)


async def test_the_description_is_served(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        described = await (await world.operator()).call("daemon.describe")
        assert {method["name"] for method in described["methods"]} == METHODS.keys()


def test_a_failure_becomes_a_typed_error() -> None:
    failure = Failure("no_such_server", 'no server is named "x"', hint="mcpctl list", server="x")
    assert msgspec.json.decode(dispatch.failure_line(b'"id"', failure)) == {
        "jsonrpc": "2.0",
        "id": "id",
        "error": {
            "code": 1001,
            "message": 'no server is named "x"',
            "data": {"kind": "no_such_server", "hint": "mcpctl list", "server": "x"},
        },
    }


def test_a_servers_own_error_travels_unchanged_d13() -> None:
    raw = b'{"code":-32602,"message":"bad","data":{"why":1.50}}'
    line = dispatch.failure_line(b"1", ServerError(raw, -32602, "bad"))
    assert raw in line
    assert msgspec.json.decode(line)["error"]["data"]["kind"] == "server_error"


@pytest.mark.parametrize(
    ("method", "params", "place"),
    [
        ("daemon.status", {"verbose": True}, "verbose"),
        ("servers.get", {}, "server"),
        ("servers.get", {"server": 3}, "$.server"),
        ("servers.get", {"server": "x", "sever": "x"}, "sever"),
        ("servers.logs", {"server": "x", "lines": 0}, "$.lines"),
        ("servers.logs", {"server": "x", "lines": 201}, "$.lines"),
        (
            "servers.add",
            {"name": "x", "command": "c", "default_policy": {"risk": "none"}},
            "$.default_policy.risk",
        ),
        (
            "servers.add",
            {"name": "x", "command": "c", "default_policy": {"timeout": -1}},
            "$.default_policy.timeout",
        ),
        ("servers.add", {"name": "x", "command": "c", "default_policy": {"rsk": "low"}}, "rsk"),
        ("servers.add", {"name": "x", "command": "c", "args": [1]}, "$.args[0]"),
        ("tools.call", {"name": "x", "timeout": 0}, "$.timeout"),
        ("events.subscribe", {"topics": ["weather"]}, "$.topics[0]"),
        ("events.subscribe", {"since": -1}, "$.since"),
        ("hello", {"api": [1]}, "$.api"),
    ],
)
async def test_wrong_params_are_refused_by_place(
    home: Home, real_clock: None, method: str, params: dict[str, typing.Any], place: str
) -> None:
    async with running(home) as world:
        refused = await (await world.operator()).refusal(method, **params)
        assert (refused.kind, refused.code) == ("invalid_params", -32602)
        assert place in refused.message
        assert method in refused.message
