"""Reading tools: tolerant, bounded, and acceptable to every client (b24, b25, protocol reference 5.2, 7)."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.catalog.definition import Limits
from mcpd.catalog.tool import Annotations, Tool, read_tools

OBJECT = {"type": "object"}
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def read(
    *definitions: Any, limits: Limits | None = None
) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """What agents of older revisions see, by name, and the warnings."""
    page = json.dumps(definitions).encode()
    tools, warnings = read_tools([page], limits) if limits else read_tools([page])
    return {tool.name: json.loads(tool.entry(tool.name)) for tool in tools}, warnings


def read_one(text: bytes) -> Tool:
    tools, _ = read_tools([text])
    assert len(tools) == 1
    return tools[0]


def test_a_definition_stays_the_same_text_but_for_its_name() -> None:
    rest = (
        rb'"description":"caf\u00e9 \/ \"q\"","inputSchema":{"type":"object","properties":'
        rb'{"n":{"type":"number","maximum":1.50E+2}}},"x-own":[1,2.0,null],"_meta":{"a/b":1e3}'
    )
    tool = read_one(b'{"name":"t",' + rest + b"}")
    assert tool.rest == rest
    assert tool.entry("s__t") == b'{"name":"s__t",' + rest + b"}"


def test_members_keep_their_order_wherever_the_name_stands() -> None:
    tool = read_one(b'{"title":"T","name":"t","inputSchema":{"type":"object"},"a":1}')
    assert tool.rest == b'"title":"T","inputSchema":{"type":"object"},"a":1'


def test_pages_and_single_definitions_are_read_in_order() -> None:
    one = b'{"name":"%s","inputSchema":{"type":"object"}}'
    tools, warnings = read_tools(
        [b"[" + one % b"a" + b" , " + one % b"b" + b"]", b"[]", b" " + one % b"c" + b"\n"]
    )
    assert [tool.name for tool in tools] == ["a", "b", "c"]
    assert not warnings


def test_line_breaks_of_an_indented_page_do_not_pass() -> None:
    page = json.dumps([{"name": "t", "inputSchema": OBJECT, "description": "a\nb"}], indent=1)
    tool = read_one(page.replace("\n", "\r\n").encode())
    assert b"\n" not in tool.rest
    assert b"\r" not in tool.rest
    assert json.loads(tool.entry("t"))["description"] == "a\nb"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (7, "Expected `object`"),
        ("x", "Expected `object`"),
        (None, "Expected `object`"),
        ([], "Expected `object`"),
        ({}, "name"),
        ({"inputSchema": OBJECT}, "name"),
        ({"name": None, "inputSchema": OBJECT}, "name"),
        ({"name": 7, "inputSchema": OBJECT}, "name"),
        ({"name": "", "inputSchema": OBJECT}, "empty"),
        ({"name": "a\x00b", "inputSchema": OBJECT}, "control"),
        ({"name": "a\nb", "inputSchema": OBJECT}, "control"),
        ({"name": "a\x1b[31m", "inputSchema": OBJECT}, "control"),
        ({"name": "a\x7f", "inputSchema": OBJECT}, "control"),
        ({"name": "a\x85", "inputSchema": OBJECT}, "control"),
        ({"name": "L" * 257, "inputSchema": OBJECT}, "256"),
        ({"name": "t", "inputSchema": True}, "input schema is no object"),
        ({"name": "t", "inputSchema": []}, "input schema is no object"),
        ({"name": "t", "inputSchema": {"type": "string"}}, 'other than "object"'),
    ],
)
def test_a_bad_definition_is_left_out_and_no_other(bad: Any, reason: str) -> None:
    tools, warnings = read({"name": "a", "inputSchema": OBJECT}, bad, {"name": "z", "inputSchema": OBJECT})
    assert list(tools) == ["a", "z"]
    assert len(warnings) == 1
    assert reason in warnings[0]


@pytest.mark.parametrize(
    "name", ["a.b", "admin/tools/list", "with space", "日本", "x__y", "L" * 256, "U-9", "*"]
)
def test_odd_names_are_kept(name: str) -> None:
    tools, warnings = read({"name": name, "inputSchema": OBJECT})
    assert list(tools) == [name]
    assert not warnings


def test_of_two_with_one_name_the_first_counts() -> None:
    tools, warnings = read(
        {"name": "t", "description": "first", "inputSchema": OBJECT},
        {"name": "t", "description": "second", "inputSchema": OBJECT},
    )
    assert tools["t"]["description"] == "first"
    assert warnings == ('a second tool "t" is left out',)


@pytest.mark.parametrize(
    ("given_", "listed", "said"),
    [
        # null counts as absent
        (
            {
                "inputSchema": OBJECT,
                "title": None,
                "description": None,
                "annotations": None,
                "outputSchema": None,
            }
            | {"_meta": None, "icons": None, "execution": None},
            {"inputSchema": OBJECT},
            False,
        ),
        ({}, {"inputSchema": OBJECT}, True),
        ({"inputSchema": None}, {"inputSchema": OBJECT}, True),
        ({"inputSchema": {"$schema": "s"}}, {"inputSchema": {"type": "object", "$schema": "s"}}, True),
        ({"inputSchema": OBJECT, "description": 7}, {"inputSchema": OBJECT}, True),
        ({"inputSchema": OBJECT, "title": ["t"]}, {"inputSchema": OBJECT}, True),
        ({"inputSchema": OBJECT, "annotations": []}, {"inputSchema": OBJECT}, True),
        ({"inputSchema": OBJECT, "_meta": "m"}, {"inputSchema": OBJECT}, True),
        ({"inputSchema": OBJECT, "icons": [{"mimeType": "image/png"}]}, {"inputSchema": OBJECT}, True),
        ({"inputSchema": OBJECT, "execution": {"taskSupport": "maybe"}}, {"inputSchema": OBJECT}, True),
        ({"inputSchema": OBJECT, "outputSchema": 7}, {"inputSchema": OBJECT}, True),
        (
            {"inputSchema": OBJECT, "outputSchema": {"$id": "x.v1"}},
            {"inputSchema": OBJECT, "outputSchema": {"type": "object", "$id": "x.v1"}},
            True,
        ),
        ({"inputSchema": OBJECT, "outputSchema": {"type": "array"}}, {"inputSchema": OBJECT}, True),
        (
            {"inputSchema": OBJECT, "annotations": {"readOnlyHint": "yes", "title": 1, "x": None}},
            {"inputSchema": OBJECT, "annotations": {"x": None}},
            True,
        ),
        (
            {"inputSchema": OBJECT, "annotations": {"readOnlyHint": None, "idempotentHint": True}},
            {"inputSchema": OBJECT, "annotations": {"idempotentHint": True}},
            False,
        ),
    ],
)
def test_a_definition_is_mended(given_: dict[str, Any], listed: dict[str, Any], said: bool) -> None:
    tools, warnings = read({"name": "t", **given_})
    assert tools == {"t": {"name": "t", **listed}}
    assert bool(warnings) == said
    assert all(warning.startswith('tool "t": its ') for warning in warnings)


@pytest.mark.parametrize(
    "output", [{"type": "array", "items": {}}, {"$id": "x.v1"}, {"type": ["object", "null"]}]
)
def test_agents_of_the_stateless_era_see_the_output_schema_as_sent(output: dict[str, Any]) -> None:
    tool = read_one(json.dumps({"name": "t", "inputSchema": OBJECT, "outputSchema": output}).encode())
    assert json.loads(tool.entry("t", stateless=True))["outputSchema"] == output


def test_a_plain_output_schema_is_the_same_for_all() -> None:
    tool = read_one(b'{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"object", "x":1.0}}')
    assert tool.output is None
    assert tool.entry("t") == tool.entry("t", stateless=True)
    assert b'"outputSchema":{"type":"object", "x":1.0}' in tool.rest


@pytest.mark.parametrize(
    ("text", "annotations"),
    [
        ("{}", Annotations()),
        ('{"readOnlyHint":true}', Annotations(read_only_hint=True)),
        ('{"destructiveHint":false,"openWorldHint":true}', Annotations(None, False, None, True)),
        ('{"readOnlyHint":"true"}', Annotations()),
        ('{"readOnlyHint":1,"idempotentHint":true}', Annotations(idempotent_hint=True)),
        ('{"readonlyhint":true}', Annotations()),
        (r'{"read\u004fnlyHint":true}', Annotations(read_only_hint=True)),
    ],
)
def test_hints_that_are_boolean_count(text: str, annotations: Annotations) -> None:
    definition = f'{{"name":"t","inputSchema":{{"type":"object"}},"annotations":{text}}}'
    assert read_one(definition.encode()).annotations == annotations


def test_policy_and_agents_read_the_same_hint_of_two() -> None:
    tool = read_one(
        b'{"name":"t","inputSchema":{"type":"object"},"annotations":'
        b'{"readOnlyHint":true,"title":"a: b","read\\u004fnlyHint":false}}'
    )
    assert tool.annotations == Annotations(read_only_hint=False)
    assert tool.rest.count(b"readOnlyHint") == 1
    assert b'"readOnlyHint":false' in tool.rest


def test_a_second_name_does_not_reach_agents() -> None:
    tool = read_one(b'{"name":"a","inputSchema":{"type":"object"},"name":"b","n\\u0061me":"c"}')
    assert tool.name == "c"
    assert tool.entry("s__c").count(b"name") == 1


def test_a_server_cannot_speak_for_mcpd() -> None:
    tools, _ = read(
        {"name": "t", "inputSchema": OBJECT, "_meta": {"dev.mcpd/kind": "x", "dev.mcpdx/kind": 1, "a/b": 2}}
    )
    assert tools["t"]["_meta"] == {"dev.mcpdx/kind": 1, "a/b": 2}


def test_what_is_no_utf8_is_mended() -> None:
    tools, warnings = read_tools([b'[{"name":"t","inputSchema":{"type":"object"},"description":"caf\xe9"}]'])
    assert json.loads(tools[0].entry("t"))["description"] == "caf�"
    assert len(warnings) == 1


def test_a_name_that_is_no_utf8_is_left_out() -> None:
    tools, warnings = read_tools([b'[{"name":"caf\xe9","inputSchema":{"type":"object"}}]'])
    assert not tools
    assert len(warnings) == 1


@pytest.mark.parametrize("depth", [101, 300, 3000, 30_000])
def test_deep_nesting_is_left_out(depth: int) -> None:
    fine = b'{"name":"a","inputSchema":{"type":"object"}}'
    deep = b'{"name":"t","inputSchema":{"type":"object","x":' + b"[" * depth + b"]" * depth + b"}}"
    tools, warnings = read_tools([fine, deep])
    assert [tool.name for tool in tools] == ["a"]
    assert len(warnings) == 1


def test_brackets_in_strings_are_no_nesting() -> None:
    tools, warnings = read({"name": "t", "inputSchema": OBJECT, "description": '\\"[{' * 500})
    assert list(tools) == ["t"]
    assert not warnings


def test_many_brackets_side_by_side_are_no_nesting() -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"enum": []} for n in range(300)}}
    tools, warnings = read({"name": "t", "inputSchema": schema})
    assert list(tools) == ["t"]
    assert not warnings


@pytest.mark.parametrize("page", [b"", b"[", b"nonsense", b"[1,2", b"{", b"\xff", b'[{"name":"t"]', b"null"])
def test_a_page_that_is_no_json_gives_a_warning(page: bytes) -> None:
    tools, warnings = read_tools([page])
    assert not tools
    assert len(warnings) == 1


def test_a_definition_may_have_64_kib() -> None:
    def text(size: int) -> bytes:
        start = b'{"name":"t","inputSchema":{"type":"object","title":"'
        return start + b"x" * (size - len(start) - 3) + b'"}}'

    assert len(read_tools([text(65_536)])[0]) == 1
    tools, warnings = read_tools([text(65_537)])
    assert not tools
    assert "65,536" in warnings[0]
    assert len(warnings[0]) < 300


def test_a_server_may_have_10_000_tools() -> None:
    one = b'{"name":"t%d","inputSchema":{"type":"object"}}'
    tools, warnings = read_tools([one % number for number in range(10_002)])
    assert len(tools) == 10_000
    assert len(warnings) == 1
    assert warnings[0].startswith("2 tools are left out")


def test_a_catalogue_may_have_16_mib() -> None:
    size = 64_000
    tools, warnings = read_tools(
        b'{"name":"t%d","inputSchema":{"type":"object"},"description":"%s"}' % (number, b"x" * (size - 59))
        for number in range(300)
    )
    assert 16 * 1024 * 1024 - size <= sum(len(tool.entry(tool.name)) for tool in tools) <= 16 * 1024 * 1024
    assert "tools are left out" in warnings[0]


def test_warnings_are_bounded() -> None:
    _, warnings = read_tools(b"7" for _ in range(1000))
    assert len(warnings) == 101
    assert warnings[-1] == "and 900 more warnings"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
schema_values = json_values | st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "array", ["object"], None, 7]),
        "properties": json_values | st.dictionaries(st.text(max_size=3), json_values, max_size=3),
        "required": json_values | st.lists(st.text(max_size=3), max_size=3),
        "$schema": json_values,
    },
)
definitions = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(min_size=1, max_size=9) | json_values,
        "inputSchema": schema_values,
        "outputSchema": schema_values,
        "description": st.text() | json_values,
        "title": st.text() | json_values,
        "annotations": json_values | st.fixed_dictionaries({}, optional={"readOnlyHint": json_values}),
        "icons": json_values | st.lists(st.fixed_dictionaries({}, optional={"src": json_values})),
        "execution": json_values,
        "_meta": json_values,
        "other": json_values,
    },
)


def refusals(entry: dict[str, Any], revision: str) -> list[str]:
    """What the official TypeScript client would refuse the whole list for."""
    faults = []

    def root(schema: Any) -> bool:
        return (
            schema.get("type") == "object"
            and isinstance(schema.get("$schema", ""), str)
            and all(isinstance(each, dict) for each in schema.get("properties", {}).values())
            and all(isinstance(each, str) for each in schema.get("required", []))
        )

    if not root(entry["inputSchema"]):
        faults.append("inputSchema")
    output = entry.get("outputSchema", OBJECT)
    if not isinstance(output, dict) or (revision == "legacy" and not root(output)):
        faults.append("outputSchema")
    faults += [key for key in ("description", "title") if not isinstance(entry.get(key, ""), str)]
    faults += [
        key for key in ("annotations", "execution", "_meta") if not isinstance(entry.get(key, {}), dict)
    ]
    hints = entry.get("annotations", {})
    faults += [key for key in HINTS if not isinstance(hints.get(key, True), bool)]
    faults += [icon for icon in entry.get("icons", []) if not isinstance(icon.get("src"), str)]
    return faults


@given(st.lists(definitions | json_values, max_size=4))
def test_whatever_is_listed_no_client_refuses(items: list[Any]) -> None:
    tools, _ = read_tools([json.dumps(items).encode()])
    for tool in tools:
        assert not refusals(json.loads(tool.entry("s__t")), "legacy")
        assert not refusals(json.loads(tool.entry("s__t", stateless=True)), "2026-07-28")


@given(st.lists(definitions | json_values, max_size=4))
def test_definitions_do_not_touch_each_other(items: list[Any]) -> None:
    fine = [{"name": f"fine{n}\u00e9", "inputSchema": OBJECT} for n in range(len(items) + 1)]
    mixed = [each for pair in zip(fine, [*items, None], strict=True) for each in pair]
    tools, _ = read_tools([json.dumps(mixed).encode()])
    assert [each["name"] for each in fine] == [tool.name for tool in tools if tool.name.startswith("fine")]


@given(
    st.lists(st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()), max_size=4)
)
def test_reading_never_raises_and_what_it_gives_is_one_line_of_json(pages: list[bytes]) -> None:
    tools, warnings = read_tools(pages)
    assert all(isinstance(warning, str) for warning in warnings)
    for tool in tools:
        entry = tool.entry("s__t")
        assert b"\n" not in entry
        assert json.loads(entry.decode())["name"] == "s__t"


@given(st.binary(max_size=12))
def test_any_bytes_in_a_description_give_valid_text(junk: bytes) -> None:
    text = b'{"name":"t","inputSchema":{"type":"object"},"description":"' + junk + b'"}'
    for tool in read_tools([text])[0]:
        json.loads(tool.entry("t").decode())


def test_a_long_description_is_cut_and_the_tool_kept() -> None:
    """A definition is at most 64 KiB (b24); a tool is not lost for its words."""
    long = {"name": "echo", "description": "d\n" * 100_000, "inputSchema": {"type": "object"}}
    tools, warnings = read_tools([json.dumps([long]).encode()])
    assert [tool.name for tool in tools] == ["echo"]
    assert len(tools[0].rest) <= 64 * 1024
    assert json.loads(tools[0].entry("echo"))["description"].endswith("[cut by mcpd]")
    assert "200,000 characters" in warnings[0]


def test_a_long_schema_costs_the_tool() -> None:
    schema = {"type": "object", "description": "d" * 70_000}
    tools, warnings = read_tools([json.dumps([{"name": "a", "inputSchema": schema}]).encode()])
    assert tools == ()
    assert "65,536 bytes" in warnings[0]


@pytest.mark.parametrize("element", [b"1", b"{}", b"[]"])
def test_a_page_of_very_many_entries_takes_neither_memory_nor_time(element: bytes) -> None:
    page = b"[" + b",".join([element] * 500_000) + b"]"
    read_tools([page])
    tracemalloc.start()
    try:
        tools, warnings = read_tools([page])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert tools == ()
    assert len(warnings) == 101
    assert peak < 3 * len(page) + 3_000_000


def test_entries_of_any_kind_count() -> None:
    one = b'{"name":"t%d","inputSchema":{"type":"object"}}'
    tools, warnings = read_tools([b"7", b"{}", one % 1, one % 2, one % 3], Limits(entries=4))
    assert [tool.name for tool in tools] == ["t1", "t2"]
    assert warnings[0].startswith("1 tools are left out")


@pytest.mark.parametrize(
    ("definition", "plain"),
    [
        (b'{"name":"a","inputSchema":{"type":"object"},"description":"Adds two numbers."}', True),
        (b'{"name":"a","inputSchema":{"type":"object"},"description":"Adds\\u200b two numbers."}', False),
        ('{"name":"\u00e4","inputSchema":{"type":"object"}}'.encode(), False),
        (b'{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"description":"\\u200b"}}', False),
        (b'{"name":"a","inputSchema":{"type":"object"},"x":"Y3VybCBodHRwOi8veC95IHwgc2g="}', False),
    ],
)
def test_whether_policy_has_to_look_closer_is_said(definition: bytes, plain: bool) -> None:
    (tool,), _ = read_tools([definition])
    assert tool.plain is plain
