"""Reading resources and templates: tolerant, bounded, and acceptable to every client (b24, 5.3)."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.catalog.definition import Limits
from mcpd.catalog.resource import Resource, Template, read_resources, read_templates


def read(*entries: Any, limits: Limits | None = None) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """What agents see, by URI, and the warnings."""
    page = json.dumps(entries).encode()
    found, warnings = read_resources([page], limits) if limits else read_resources([page])
    return {one.uri: json.loads(one.entry(one.uri)) for one in found}, warnings


def test_an_entry_stays_the_same_text_but_for_its_uri() -> None:
    rest = rb'"name":"caf\u00e9 \/","size":12,"annotations":{"priority":1.0e-1, "x":null},"_meta":{"a/b":1e3}'
    [resource], warnings = read_resources([b'{"uri":"a:b",' + rest + b"}"])
    assert resource == Resource("a:b", rest)
    assert resource.entry("mcpd://s/a:b") == b'{"uri":"mcpd://s/a:b",' + rest + b"}"
    assert not warnings
    [template], warnings = read_templates([b'{"uriTemplate":"a:{b}",' + rest + b"}"])
    assert template == Template("a:{b}", rest)
    assert template.entry("mcpd://s/a:{b}") == b'{"uriTemplate":"mcpd://s/a:{b}",' + rest + b"}"
    assert not warnings


def test_a_server_cannot_speak_for_mcpd() -> None:
    entries, _ = read({"uri": "a:b", "name": "n", "_meta": {"dev.mcpd/kind": "x", "ui": {"csp": {}}}})
    assert entries["a:b"]["_meta"] == {"ui": {"csp": {}}}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (7, "Expected `object`"),
        (None, "Expected `object`"),
        ({}, "required field"),
        ({"name": "n"}, "uri"),
        ({"name": "n", "uri": None}, "uri"),
        ({"name": "n", "uri": 7}, "uri"),
        ({"name": "n", "uri": ""}, "empty"),
        ({"name": "n", "uri": "a:\nb"}, "control"),
        ({"name": "n", "uri": "a:\x00"}, "control"),
        ({"name": "n", "uri": "a:" + "x" * 7999}, "8,000"),
    ],
)
def test_a_bad_entry_is_left_out_and_no_other(bad: Any, reason: str) -> None:
    entries, warnings = read({"uri": "a:1", "name": "a"}, bad, {"uri": "a:2", "name": "b"})
    assert list(entries) == ["a:1", "a:2"]
    assert len(warnings) == 1
    assert reason in warnings[0]
    assert len(warnings[0]) < 300


@pytest.mark.parametrize("uri", ["notes.txt", "file:///a b", "日本", "mcpd://s/x", "x" * 8000, "u:{y}", " "])
def test_odd_uris_are_kept(uri: str) -> None:
    entries, warnings = read({"uri": uri, "name": "n"})
    assert list(entries) == [uri]
    assert not warnings


def test_of_two_with_one_uri_the_first_counts() -> None:
    entries, warnings = read({"uri": "a:b", "name": "first"}, {"uri": "a:b", "name": "second"})
    assert entries["a:b"]["name"] == "first"
    assert warnings == ('a second resource "a:b" is left out',)


@pytest.mark.parametrize(
    ("sent", "listed", "said"),
    [
        (
            {"name": "n", "title": None, "size": None, "annotations": None},
            {"name": "n"},
            False,
        ),
        ({}, {"name": "a:b"}, True),
        ({"name": None}, {"name": "a:b"}, True),
        ({"name": 7}, {"name": "a:b"}, True),
        ({"name": "", "mimeType": 3}, {"name": ""}, True),
        ({"name": "n", "size": -1}, {"name": "n"}, True),
        ({"name": "n", "size": 1.5}, {"name": "n"}, True),
        ({"name": "n", "size": "12"}, {"name": "n"}, True),
        ({"name": "n", "size": 2**40}, {"name": "n", "size": 2**40}, False),
        ({"name": "n", "icons": [{}]}, {"name": "n"}, True),
        ({"name": "n", "annotations": []}, {"name": "n"}, True),
        ({"name": "n", "_meta": 1}, {"name": "n"}, True),
        (
            {"name": "n", "annotations": {"audience": ["assistant", "model"], "priority": 1, "x": None}},
            {"name": "n", "annotations": {"priority": 1, "x": None}},
            True,
        ),
        ({"name": "n", "annotations": {"audience": None}}, {"name": "n", "annotations": {}}, False),
        ({"name": "n", "annotations": {"priority": 1.01}}, {"name": "n", "annotations": {}}, True),
    ],
)
def test_an_entry_is_mended(sent: dict[str, Any], listed: dict[str, Any], said: bool) -> None:
    entries, warnings = read({"uri": "a:b", **sent})
    assert entries == {"a:b": {"uri": "a:b", **listed}}
    assert bool(warnings) == said
    assert all(warning.startswith('resource "a:b": its ') for warning in warnings)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("2025-01-12T15:00:58Z", True),
        ("2025-01-12T15:00Z", True),
        ("2025-01-12T15:00:58.123456+02:00", True),
        ("2024-02-29T00:00:00Z", True),
        ("2025-02-29T00:00:00Z", False),
        ("2025-13-01T00:00:00Z", False),
        ("2025-01-12T24:00:00Z", False),
        ("2025-01-12 15:00:58Z", False),
        ("2025-01-12T15:00:58", False),
        ("2025-01-12T15:00:58Z\n", False),
        ("2025-01-12", False),
        ("٢٠٢٥-01-12T15:00:58Z", False),
        ("yesterday", False),
    ],
)
def test_a_time_has_the_form_of_the_typescript_client(text: str, taken: bool) -> None:
    entries, warnings = read({"uri": "a:b", "name": "n", "annotations": {"lastModified": text}})
    assert ("lastModified" in entries["a:b"]["annotations"]) is taken
    assert len(warnings) == (not taken)


def test_a_long_description_is_cut_and_a_long_uri_is_short_in_a_warning() -> None:
    entries, warnings = read({"uri": "a:" + "x" * 7000, "name": "n", "description": "y" * 70_000})
    [entry] = entries.values()
    assert entry["description"].endswith("y [cut by mcpd]")
    assert len(json.dumps(entry)) <= 65_536
    assert len(warnings[0]) < 400


def test_a_server_may_have_so_many_and_so_much() -> None:
    one = b'{"uri":"a:%d","name":"n"}'
    resources, warnings = read_resources([one % n for n in range(12)], Limits(entries=10))
    assert len(resources) == 10
    assert warnings[0].startswith("2 resources are left out: a server may have 10 of them")
    resources, _ = read_resources([one % n for n in range(9)], Limits(catalogue=100), taken=40)
    assert len(resources) == 2
    templates, warnings = read_templates([b'{"uriTemplate":"a:1","name":"n"}'], taken=16 * 1024 * 1024)
    assert not templates
    assert warnings[0].startswith("1 resource templates are left out")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
hints = st.fixed_dictionaries(
    {},
    optional={
        "audience": json_values | st.lists(st.sampled_from(["user", "assistant", "x"]), max_size=3),
        "priority": json_values | st.floats(-1, 2),
        "lastModified": json_values
        | st.datetimes().map(lambda at: at.isoformat() + "Z")
        | st.just("2025-01-12T15:00:58Z"),
        "x": json_values,
    },
)
entries = st.fixed_dictionaries(
    {},
    optional={
        "uri": st.text(min_size=1, max_size=9) | json_values,
        "uriTemplate": st.text(min_size=1, max_size=9) | json_values,
        "name": st.text(max_size=9) | json_values,
        "title": st.text() | json_values,
        "description": st.text() | json_values,
        "mimeType": st.text() | json_values,
        "size": st.integers() | json_values,
        "icons": json_values | st.lists(st.fixed_dictionaries({}, optional={"src": json_values})),
        "annotations": hints | json_values,
        "_meta": json_values,
        "x": json_values,
    },
)


def refusals(entry: dict[str, Any]) -> list[str]:
    """What the official TypeScript client (1.32.2, `ResourceSchema`) would refuse the whole list for."""
    texts = ("name", "title", "description", "mimeType")
    faults = [key for key in texts if not isinstance(entry.get(key, ""), str)]
    faults += [key for key in ("annotations", "_meta") if not isinstance(entry.get(key, {}), dict)]
    faults += [icon for icon in entry.get("icons", []) if not isinstance(icon.get("src"), str)]
    if isinstance(entry.get("size", 0), bool) or not isinstance(entry.get("size", 0), int | float):
        faults.append("size")
    said = entry.get("annotations", {})
    if not set(said.get("audience", [])) <= {"user", "assistant"}:
        faults.append("audience")
    if isinstance(said.get("priority", 0), bool) or not 0 <= said.get("priority", 0) <= 1:
        faults.append("priority")
    datetime.fromisoformat(said.get("lastModified", "2025-01-12T15:00:58Z"))
    return faults


@given(st.lists(entries | json_values, max_size=4))
def test_whatever_is_listed_no_client_refuses(items: list[Any]) -> None:
    page = json.dumps(items).encode()
    resources, _ = read_resources([page])
    for resource in resources:
        listed = json.loads(resource.entry(f"mcpd://s/{resource.uri}"))
        assert not refusals(listed)
        mcp_types.Resource.model_validate(listed)
    templates, _ = read_templates([page])
    for template in templates:
        listed = json.loads(template.entry(template.uri_template))
        assert not refusals(listed)
        mcp_types.ResourceTemplate.model_validate(listed)


@given(st.lists(st.binary(max_size=60), max_size=3), st.integers(0, 100))
def test_any_bytes_are_read_without_a_failure(pages: list[bytes], cut: int) -> None:
    whole = json.dumps([{"uri": "a:b", "name": "é", "annotations": {"priority": 1}}], ensure_ascii=False)
    for page in (*pages, *(b'[{"uri":"' + page + b'","name":"n"}]' for page in pages), whole.encode()[:cut]):
        for found, warnings in (read_resources([page]), read_templates([page])):
            for one in found:
                json.loads(one.entry("a:b").decode())
                assert b"\n" not in one.rest
            assert len(warnings) <= 101
