"""Which extensions cross mcpd: what it carries, where both sides have it (5.17)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.protocol import extensions
from mcpd.protocol.extensions import TASKS, UI

SETTINGS = {"mimeTypes": ["text/html;profile=mcp-app"]}


def test_settings_cross_as_they_are() -> None:
    said: dict[str, Any] = {TASKS: {}, UI: SETTINGS, "com.example/x-y": {"deep": {"a": [1, None]}}}
    assert extensions.read({"extensions": said, "roots": {}}) == said
    assert msgspec.json.decode(extensions.encode(said)) == said
    assert extensions.encode({}) == b""


@pytest.mark.parametrize(
    ("name", "crosses"),
    [
        (TASKS, True),
        (UI, True),
        ("com.example/x", True),
        ("com.example.mcp/x", True),
        ("example/x", True),
        ("io.modelcontextprotocol/oauth-client-credentials", False),
        ("io.modelcontextprotocol/enterprise-managed-authorization", False),
        ("io.modelcontextprotocol/whatever-comes", False),
        ("com.mcp.tools/x", False),
        ("dev.mcpd/x", False),
        ("no-prefix", False),
        ("com.example/", False),
        ("/x", False),
        ("com..example/x", False),
        ("com.example/x y", False),
        ("com.example/" + "x" * 300, False),
    ],
)
def test_what_is_reserved_and_not_carried_is_not_declared(name: str, crosses: bool) -> None:
    """A prefix whose second label is modelcontextprotocol or mcp is the protocol's own (5.19)."""
    assert extensions.crosses(name) is crosses
    assert (name in extensions.read({"extensions": {name: {}}})) is crosses


def test_too_much_is_nothing() -> None:
    many: dict[str, Any] = {f"com.example/x{n}": {} for n in range(extensions.MOST + 1)}
    assert extensions.read({"extensions": many}) == {}
    assert extensions.read({"extensions": {"com.example/x": {"a": "b" * extensions.SIZE}}}) == {}


@pytest.mark.parametrize("odd", [None, [], {"extensions": []}, {"extensions": {TASKS: True}}, {}, 3])
def test_odd_capabilities_have_none(odd: object) -> None:
    assert extensions.read(odd) == {}


def test_a_server_hears_of_what_it_has_announced_and_of_what_clients_show() -> None:
    declared = extensions.encode({TASKS: {"a": 1}, UI: SETTINGS, "com.example/x": {}})
    assert extensions.towards_server(declared, {}) == {UI: SETTINGS}
    announced: dict[str, Any] = {TASKS: {}, "com.example/y": {}}
    assert extensions.towards_server(declared, announced) == {TASKS: {"a": 1}, UI: SETTINGS}
    assert extensions.towards_server(b"", announced) == {}


names = st.text(alphabet="abM1.-_/ ", max_size=30)
json = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
)


@given(st.dictionaries(names, st.dictionaries(names, json, max_size=2) | json, max_size=6))
def test_whatever_is_declared_only_whole_extensions_of_good_names_cross(said: dict[str, Any]) -> None:
    found = extensions.read({"extensions": said})
    assert found == {name: each for name, each in said.items() if name in found}
    assert all(extensions.crosses(name) for name in found)
    assert extensions.towards_server(extensions.encode(found), found) == found
