"""URIs of several servers side by side: exactly one qualifier, and nothing lost on the way back (n03)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl

from mcpd.catalog.content import Bounded
from mcpd.catalog.names import server_name_problem
from mcpd.catalog.qualify import (
    qualified,
    qualify_content,
    qualify_contents,
    qualify_messages,
    qualify_tool,
    split,
    unqualified,
)
from mcpd.catalog.tool import Tool, read_tools
from mcpd.errors import Failure

servers = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,31}", fullmatch=True).filter(
    lambda name: server_name_problem(name) is None
)
uris = (
    st.text(max_size=30)
    | st.builds("{}://{}/{}".format, st.sampled_from(["mcpd", "file", "test"]), servers, st.text(max_size=20))
    | st.sampled_from(
        ["note:///{id}", "test://a/{+path}{?q,r}", "mcpd://", "mcpd:///x", "mcpd://s/", "a%20b", "x#y?z", ""]
    )
)


@given(servers, uris)
def test_what_is_qualified_comes_back(server: str, uri: str) -> None:
    assert split(qualified(server, uri)) == (server, uri)
    assert unqualified(server, qualified(server, uri)) == uri


@given(servers, servers, uris)
def test_exactly_one_qualifier_is_added_and_taken_off(server: str, other: str, uri: str) -> None:
    """A server may itself be an mcpd, and have a server of the same name."""
    nested = qualified(server, qualified(other, uri))
    assert nested.count("mcpd://") == uri.count("mcpd://") + 2
    assert split(nested) == (server, qualified(other, uri))
    assert unqualified(server, nested) == qualified(other, uri)


@given(st.lists(st.tuples(servers, uris), max_size=6, unique=True))
def test_no_two_become_one(pairs: list[tuple[str, str]]) -> None:
    assert len({qualified(*pair) for pair in pairs}) == len(pairs)


@given(servers, uris)
def test_a_template_is_expanded_as_it_would_be_alone(server: str, uri: str) -> None:
    """The qualifier has no expression of its own (RFC 6570)."""
    expanded = qualified(server, uri).replace("{id}", "7")
    assert split(expanded) == (server, uri.replace("{id}", "7"))


@pytest.mark.parametrize(
    "uri",
    ["", "note:///7", "mcpd", "mcpd:/s/x", "mcpd://", "mcpd://s", "mcpd:///x", "MCPD://s/x", " mcpd://s/x"],
)
def test_anything_else_is_not_qualified(uri: str) -> None:
    assert split(uri) is None
    assert unqualified("s", uri) == uri


def test_the_qualifier_of_another_server_stays() -> None:
    assert unqualified("s", "mcpd://t/x") == "mcpd://t/x"


@given(servers, st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=30))
def test_clients_that_want_a_url_take_it(server: str, uri: str) -> None:
    """`mcp` 1.x drops a whole list for one URI that is none; what it sends back names the server."""
    found = split(str(AnyUrl(qualified(server, uri))))
    assert found is not None
    assert found[0] == server


# ------------------------------------------------------------------- in listings


def test_the_view_of_a_tool_has_a_uri_that_can_be_read() -> None:
    """MCP Apps: the host reads it with resources/read (5.17)."""
    meta = {"ui": {"resourceUri": "ui://x", "visibility": ["app"]}, "ui/resourceUri": "ui://y", "a/b": 1}
    entry = {"name": "t", "inputSchema": {"type": "object"}, "_meta": meta}
    (tool,), _ = read_tools([json.dumps(entry).encode()])
    assert json.loads(qualify_tool(tool, "s").entry("s__t")) == {
        **entry,
        "name": "s__t",
        "_meta": {
            "ui": {"resourceUri": "mcpd://s/ui://x", "visibility": ["app"]},
            "ui/resourceUri": "mcpd://s/ui://y",
            "a/b": 1,
        },
    }


@pytest.mark.parametrize(
    "rest",
    [
        b'"inputSchema":{"type":"object"}',
        b'"inputSchema":{"properties":{"resourceUri":{}}}, "_meta":{}',
        b'"inputSchema":{"properties":{"resourceUri":{}}}',
        b'"_meta":{"ui":"resourceUri"}',
        b'"_meta":{"ui":{"resourceUri":7},"ui/resourceUri":null}',
        b'"_meta":"resourceUri"',
    ],
)
def test_a_tool_without_a_view_is_the_same(rest: bytes) -> None:
    tool = Tool("t", rest)
    assert qualify_tool(tool, "s") is tool


# ------------------------------------------------------------------- in results


def link(uri: Any, **more: Any) -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, "name": "n", **more}


def embedded(uri: Any, **more: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "text": "t"}, **more}


def as_bounded(value: Any) -> Bounded:
    return Bounded(json.dumps(value).encode())


def test_links_and_embedded_resources_of_a_result_are_qualified_and_nothing_else() -> None:
    blocks = [link("a:1"), embedded("a:2", x=[1]), {"type": "text", "text": '"resource"'}, 7]
    result: dict[str, Any] = {"content": blocks, "structuredContent": {"uri": "a:1"}, "_meta": {"x": 1}}
    assert json.loads(qualify_content(as_bounded(result), "s").text) == result | {
        "content": [link("mcpd://s/a:1"), embedded("mcpd://s/a:2", x=[1]), *blocks[2:]]
    }


def test_the_other_values_of_a_result_keep_their_spelling() -> None:
    text = rb'{"content":[{"type":"resource_link","uri":"a:1","name":"\/","x":1.0e2}],"y":[1.50]}'
    assert qualify_content(Bounded(text), "s").text == text.replace(b'"a:1"', b'"mcpd://s/a:1"')


@pytest.mark.parametrize(
    "text",
    [
        b'{"content":[{"type":"text","text":"a resource"}]}',
        b'{"content":[{"type":"text","text":"\\"resource\\" \\u0041"}]}',
        b'{"content":[{"type":"resource","resource":7},{"type":"resource_link"},{"type":"resource_link","uri":7}]}',
        b'{"content":[{"type":"resource","uri":"a:1"},["resource"]], "structuredContent":"resource"}',
    ],
)
def test_a_result_without_such_blocks_is_the_same_object(text: bytes) -> None:
    result = Bounded(text, is_error=True)
    assert qualify_content(result, "s") is result


def test_escapes_do_not_hide_a_link() -> None:
    text = rb'{"content":[{"t\u0079pe":"r\u0065source_link","\u0075ri":"a:1","name":"n"}]}'
    assert json.loads(qualify_content(Bounded(text), "s").text) == {"content": [link("mcpd://s/a:1")]}


def test_a_second_copy_of_a_uri_does_not_pass() -> None:
    text = b'{"content":[{"type":"resource_link","uri":"mcpd://t/a:1","uri":"a:2","name":"n"}]}'
    assert qualify_content(Bounded(text), "s").text.count(b"uri") == 1


def test_the_entries_of_a_read_are_qualified() -> None:
    result = Bounded(b'{"contents":[{"uri":"a:1","text":""},{"text":""},7]}', caching=b'"ttlMs":0')
    assert qualify_contents(result, "s") == Bounded(
        b'{"contents":[{"uri":"mcpd://s/a:1","text":""},{"text":""},7]}', caching=b'"ttlMs":0'
    )


def test_links_in_the_messages_of_a_prompt_are_qualified() -> None:
    messages = [{"role": "user", "content": one} for one in (link("a:1"), embedded("a:2"), "x")]
    found = json.loads(qualify_messages(as_bounded({"messages": [*messages, 7]}), "s").text)
    assert [message["content"] for message in found["messages"][:3]] == [
        link("mcpd://s/a:1"),
        embedded("mcpd://s/a:2"),
        "x",
    ]
    assert found["messages"][3] == 7


def test_very_many_blocks_are_refused() -> None:
    with pytest.raises(Failure) as caught:
        qualify_content(as_bounded({"content": [link("a:1")] * 10_001}), "s")
    assert caught.value.kind == "bad_answer"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
links = st.builds(link, uris | json_values) | st.builds(embedded, uris | json_values)


def place(block: Any) -> dict[str, Any]:
    """The object that holds the URI of a block."""
    if not isinstance(block, dict) or block.get("type") not in ("resource", "resource_link"):
        return {}
    inner = block["resource"] if block["type"] == "resource" else block
    return inner if isinstance(inner.get("uri"), str) else {}


@given(st.lists(links | json_values, max_size=4), json_values)
def test_what_is_qualified_in_a_result_comes_back(blocks: list[Any], more: Any) -> None:
    text = json.dumps({"content": blocks, "x": more}).encode()
    found = json.loads(qualify_content(Bounded(text), "s").text)
    assert found["x"] == more
    for sent, seen in zip(blocks, found["content"], strict=True):
        if place(sent):
            assert split(place(seen)["uri"]) == ("s", place(sent)["uri"])
            place(seen)["uri"] = place(sent)["uri"]
        assert seen == sent
