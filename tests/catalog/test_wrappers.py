"""Wrapper tools follow what is advertised, and are nothing but a request or a listing (a10, a13-a16)."""

from __future__ import annotations

import json
from typing import Any

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.catalog.prompt import Prompt, read_prompts
from mcpd.catalog.resource import read_resources, read_templates
from mcpd.catalog.tool import Catalog, Feature, Tool, read_tools
from mcpd.catalog.wrappers import (
    check_listing,
    prompt_request,
    prompts_text,
    read_request,
    resources_text,
    wrappers,
)
from mcpd.errors import Failure

RESOURCES = ["list_resources", "read_resource"]
PROMPTS = ["list_prompts", "get_prompt"]


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ([], []),
        (["tools", "completions", "logging"], []),
        (["resources"], RESOURCES),
        (["prompts", "tools"], PROMPTS),
        (["resources", "prompts", "resources.subscribe"], RESOURCES + PROMPTS),
    ],
)
def test_wrappers_follow_what_is_advertised(features: list[Feature], expected: list[str]) -> None:
    """Not what is there: an empty list may fill."""
    assert [tool.name for tool in wrappers(Catalog(features=frozenset(features)))] == expected


def test_a_servers_own_tool_wins_over_a_wrapper() -> None:
    catalog = Catalog(tools=(Tool("read_resource", b""),), features=frozenset({"resources"}))
    assert [tool.name for tool in wrappers(catalog)] == ["list_resources"]


def test_a_wrapper_is_a_tool_that_only_reads() -> None:
    for tool in wrappers(Catalog(features=frozenset({"resources", "prompts"}))):
        entry = tool.entry(f"s__{tool.name}")
        assert read_tools([entry]) == ((read_tools([entry])[0][0],), ())
        listed = mcp_types.Tool.model_validate(json.loads(entry))
        assert listed.annotations is not None
        assert (listed.annotations.read_only_hint, tool.annotations.read_only_hint) == (True, True)
        assert tool.wraps in ("resources/list", "resources/read", "prompts/list", "prompts/get")


# ------------------------------------------------------------------- requests


@pytest.mark.parametrize("arguments", [b"", b"{}", b" {} "])
def test_a_listing_takes_no_arguments(arguments: bytes) -> None:
    check_listing(arguments)


@pytest.mark.parametrize(
    ("uri", "own"),
    [
        ("note:///7", "note:///7"),
        ("mcpd://s/note:///7", "note:///7"),
        ("mcpd://s/mcpd://s/x", "mcpd://s/x"),
        ("mcpd://t/x", "mcpd://t/x"),
        ("é", "é"),
    ],
)
def test_a_read_goes_to_the_servers_own_uri(uri: str, own: str) -> None:
    found, members = read_request(json.dumps({"uri": uri}).encode(), "s")
    assert found == own
    assert json.loads(b"{" + members + b"}") == {"uri": own}


def test_what_fills_a_prompt_passes_as_the_same_text() -> None:
    filling = rb'{ "a":"\u00e9", "n": "1.50" }'
    assert prompt_request(b'{"name":"p","arguments":' + filling + b"}", "s", ()) == (
        "p",
        b'"name":"p","arguments":' + filling,
    )
    for nothing in (b'{"name":"p"}', b'{"name":"p","arguments":null}'):
        assert prompt_request(nothing, "s", ()) == ("p", b'"name":"p"')


@pytest.mark.parametrize(
    ("asked", "own"),
    [("a b", "a b"), ("s__a_b", "a b"), ("s__s__x", "s__x"), ("s__x", "s__x"), ("other", "other")],
)
def test_a_prompt_may_be_asked_for_by_either_name(asked: str, own: str) -> None:
    prompts = (Prompt("a b", b""), Prompt("s__x", b""), Prompt("x", b""))
    assert prompt_request(json.dumps({"name": asked}).encode(), "s", prompts)[0] == own


def test_the_exported_name_is_that_of_the_agents_spelling() -> None:
    prompts = (Prompt("x", b""),)
    assert prompt_request(b'{"name":"mcp_s_x"}', "s", prompts, "mcp_server_tool")[0] == "x"


@pytest.mark.parametrize(
    "arguments",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"uri":7,"name":7}',
        b'{"uri":"a","name":"p","x":1}',
        b"{",
        b'{"uri":"\\ud800"}',
    ],
)
def test_bad_arguments_are_refused(arguments: bytes) -> None:
    with pytest.raises(Failure) as caught:
        read_request(arguments, "s")
    assert caught.value.kind == "invalid_params"
    with pytest.raises(Failure) as caught:
        prompt_request(arguments, "s", ())
    assert caught.value.kind == "invalid_params"


@pytest.mark.parametrize("filling", [b"[]", b'"x"', b"7", b'{"a":7}', b'{"a":null}', b'{"a":"x","b":{}}'])
def test_a_prompt_is_filled_by_texts(filling: bytes) -> None:
    with pytest.raises(Failure) as caught:
        prompt_request(b'{"name":"p","arguments":' + filling + b"}", "s", ())
    assert "texts by name" in caught.value.message
    assert caught.value.kind == "invalid_params"


def test_a_listing_with_arguments_is_refused() -> None:
    with pytest.raises(Failure) as caught:
        check_listing(b'{"uri":"a"}')
    assert caught.value.kind == "invalid_params"


# ------------------------------------------------------------------- listings


def offered(resources: Any = (), templates: Any = (), prompts: Any = ()) -> Catalog:
    return Catalog(
        resources=read_resources([json.dumps(resources).encode()])[0],
        templates=read_templates([json.dumps(templates).encode()])[0],
        prompts=read_prompts([json.dumps(prompts).encode()])[0],
    )


def test_a_listing_shows_uris_and_what_is_known_of_them() -> None:
    catalog = offered(
        [
            {"uri": "note:///1", "name": "one"},
            {"uri": "note:///2", "name": "two", "title": "Two", "mimeType": "text/plain", "size": 12}
            | {"description": "The\n second\tnote"},
            {"uri": "note:///3", "name": "three", "title": "three", "size": 0},
        ],
        [{"uriTemplate": "note:///{id}", "name": "any", "mimeType": "text/plain"}],
    )
    assert resources_text(catalog, "s").splitlines() == [
        "mcpd://s/note:///1 - one",
        "mcpd://s/note:///2 - Two [two] (text/plain, 12 bytes): The second note",
        "mcpd://s/note:///3 - three (0 bytes)",
        "",
        "Templates of further URIs (RFC 6570):",
        "mcpd://s/note:///{id} - any (text/plain)",
    ]
    assert resources_text(catalog).splitlines()[0] == "note:///1 - one"


def test_a_listing_shows_prompts_with_a_star_on_required_arguments() -> None:
    catalog = offered(
        prompts=[
            {"name": "plain"},
            {"name": "review", "title": "Code review", "description": "Looks\nat code"}
            | {
                "arguments": [
                    {"name": "code", "required": True, "description": "What to\nlook at"},
                    {"name": "style", "required": False},
                    {"name": "depth"},
                ]
            },
        ]
    )
    assert prompts_text(catalog).splitlines() == [
        "plain()",
        "review(code*, style, depth) - Code review: Looks at code",
        "  code*: What to look at",
    ]


def test_empty_listings_say_so() -> None:
    assert resources_text(Catalog()) == "No resources."
    assert prompts_text(Catalog()) == "No prompts."


def test_long_descriptions_are_cut() -> None:
    catalog = offered([{"uri": "a:1", "name": "n", "description": "x" * 10_000}])
    assert resources_text(catalog) == f"a:1 - n: {'x' * 500}..."


lines = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9)


@given(st.lists(lines, unique=True, max_size=5), st.lists(st.text(), max_size=5))
def test_every_entry_is_one_line_whatever_is_in_it(names: list[str], texts: list[str]) -> None:
    texts = [*texts, *[""] * 5]
    resources = [
        {"uri": name, "name": text, "title": text, "description": text, "mimeType": text}
        for name, text in zip(names, texts, strict=False)
    ]
    assert len(resources_text(offered(resources)).split("\n")) == max(1, len(names))
    prompts = [
        {"name": name, "title": text, "description": text, "arguments": [{"name": text}]}
        for name, text in zip(names, texts, strict=False)
    ]
    assert len(prompts_text(offered(prompts=prompts)).split("\n")) == max(1, len(names))
