"""The catalogue cache: the same catalogue comes back, and nothing else ever does."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.catalog.prompt import Argument, Prompt
from mcpd.catalog.resource import Resource, Template
from mcpd.catalog.tool import Annotations, Catalog, Tool, definition_is_plain
from mcpd.upstream.cache import LEGACY_HOLDS, MAX_FILE, Cached, CatalogCache

CATALOG = Catalog(
    tools=(
        Tool("plain", b"", plain=True),
        Tool(
            "rich",
            rb'"inputSchema": {"type":"object", "x":1.0e2},"description":"\u00e4 \"q\" \ud83d\ude00",'
            rb'"annotations":{"readOnlyHint":true,"destructiveHint":false}',
            Annotations(read_only_hint=True, destructive_hint=False),
        ),
        Tool("free", b'"inputSchema":{}', output=(b"", b"true"), plain=True),
    ),
    instructions="Use with care.",
    warnings=("tool x is left out",),
    resources=(Resource("a:1", rb'"name":"\u00e4","size":1'), Resource("mcpd://s/a:2", b'"name":"n"')),
    templates=(Template("a:{x}", b'"name":"n"'),),
    prompts=(
        Prompt("p", b""),
        Prompt("q", b'"arguments":[{"name":"a","required":true}]', (Argument("a", True),)),
    ),
    features=frozenset({"tools", "resources", "resources.subscribe", "prompts"}),
)


def test_a_catalogue_comes_back_byte_for_byte(tmp_path: Path) -> None:
    cache = CatalogCache(tmp_path)
    assert cache.load("s", "digest", 1000.0) is None
    cache.store("s", "digest", CATALOG, "modern", "2026-07-28", 1000.0)
    assert CatalogCache(tmp_path).load("s", "digest", 9e9) == Cached(CATALOG, "modern", "2026-07-28", 1000.0)


def test_a_file_of_another_version_is_none(tmp_path: Path) -> None:
    cache = CatalogCache(tmp_path)
    cache.store("s", "digest", CATALOG, "modern", "r", 1.0)
    path = tmp_path / "catalogue" / "s.json"
    text = path.read_bytes()
    for schema in (b"1", b"3"):
        path.write_bytes(text.replace(b'"schema":2', b'"schema":' + schema))
        assert cache.load("s", "digest", 1.0) is None
    old = {"schema": 1, "name": "s", "digest": "digest", "era": "", "revision": "r", "verified_at": 1.0}
    path.write_bytes(json.dumps({**old, "catalog": {}, "tools": []}).encode())
    assert cache.load("s", "digest", 1.0) is None


def test_the_files_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        CatalogCache(tmp_path / "mcpd").store("s", "digest", CATALOG, "modern", "r", 1.0)
    finally:
        os.umask(before)
    folder = tmp_path / "mcpd" / "catalogue"
    assert os.listdir(folder) == ["s.json"]
    assert stat.S_IMODE((folder / "s.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_another_definition_or_server_has_nothing(tmp_path: Path) -> None:
    cache = CatalogCache(tmp_path)
    cache.store("s", "digest", CATALOG, "modern", "r", 1.0)
    assert cache.load("s", "other", 1.0) is None
    (tmp_path / "catalogue" / "s.json").rename(tmp_path / "catalogue" / "t.json")
    assert cache.load("t", "digest", 1.0) is None


@pytest.mark.parametrize(
    ("era", "age", "expected"),
    [
        ("legacy", 0.0, "legacy"),
        ("legacy", LEGACY_HOLDS, "legacy"),
        ("legacy", LEGACY_HOLDS + 1, ""),
        # The clock was set back.
        ("legacy", -1.0, ""),
        ("sse", LEGACY_HOLDS, "sse"),
        ("sse", LEGACY_HOLDS + 1, ""),
        ("modern", 1e9, "modern"),
        ("auto", 0.0, ""),
    ],
)
def test_an_older_verdict_holds_for_a_day(tmp_path: Path, era: str, age: float, expected: str) -> None:
    cache = CatalogCache(tmp_path)
    cache.store("s", "digest", CATALOG, era, "r", 1000.0)
    cached = cache.load("s", "digest", 1000.0 + age)
    assert cached is not None
    assert (cached.era, cached.catalog) == (expected, CATALOG)


def test_a_verdict_does_not_become_younger_by_being_used(tmp_path: Path) -> None:
    cache = CatalogCache(tmp_path)
    cache.store("s", "digest", Catalog(), "legacy", "r", 1000.0)
    cache.store("s", "digest", CATALOG, "legacy", "r", 1000.0 + LEGACY_HOLDS / 2)
    cached = cache.load("s", "digest", 1000.0 + LEGACY_HOLDS + 1)
    assert cached == Cached(CATALOG, "", "r", 1000.0)
    cache.store("s", "digest", CATALOG, "legacy", "r", 1000.0 + LEGACY_HOLDS + 2)
    cached = cache.load("s", "digest", 1000.0 + LEGACY_HOLDS + 2)
    assert cached == Cached(CATALOG, "legacy", "r", 1000.0 + LEGACY_HOLDS + 2)


def test_what_is_forgotten_is_gone(tmp_path: Path) -> None:
    cache = CatalogCache(tmp_path)
    cache.store("s", "digest", CATALOG, "modern", "r", 1.0)
    cache.forget("s")
    cache.forget("never-there")
    assert cache.load("s", "digest", 1.0) is None
    assert os.listdir(tmp_path / "catalogue") == []


def test_damage_at_any_place_is_the_same_as_no_file_or_the_whole_one(tmp_path: Path) -> None:
    cache = CatalogCache(tmp_path)
    cache.store("s", "digest", CATALOG, "modern", "r", 1.0)
    whole = cache.load("s", "digest", 1.0)
    file = tmp_path / "catalogue" / "s.json"
    data = file.read_bytes()
    for cut in range(len(data)):
        file.write_bytes(data[:cut])
        assert cache.load("s", "digest", 1.0) is None
    file.write_bytes(data)
    assert cache.load("s", "digest", 1.0) == whole


@pytest.mark.parametrize(
    "data", [b"{}", b"[" * 100_000, b"\xff\xfe", b"null", b" " * (MAX_FILE + 1)], ids=range(5)
)
def test_other_content_is_ignored(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "catalogue").mkdir()
    (tmp_path / "catalogue" / "s.json").write_bytes(data)
    assert CatalogCache(tmp_path).load("s", "digest", 1.0) is None


def test_a_catalogue_that_is_too_large_is_not_kept_nor_is_the_one_before(tmp_path: Path) -> None:
    cache = CatalogCache(tmp_path)
    cache.store("s", "digest", CATALOG, "modern", "r", 1.0)
    large = Catalog(tools=(Tool("t", b'"description":"' + b"x" * MAX_FILE + b'"'),))
    cache.store("s", "digest", large, "modern", "r", 2.0)
    assert cache.load("s", "digest", 2.0) is None


@pytest.mark.parametrize("name", ["../s", "/etc/s", "..", "", "Ä", "a" * 300, "s\0", "S", "\ud800"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    cache = CatalogCache(tmp_path)
    assert cache.load(name, "digest", 1.0) is None
    if name != "\ud800":
        cache.store(name, "digest", CATALOG, "modern", "r", 1.0)
        assert cache.load(name, "digest", 1.0) is not None
        [file] = (tmp_path / "catalogue").iterdir()
        assert len(file.name) < 60
    cache.forget(name)
    assert [entry.name for entry in tmp_path.iterdir()] in ([], ["catalogue"])


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "catalogue").write_text("a file")
    cache = CatalogCache(tmp_path)
    cache.store("s", "digest", CATALOG, "modern", "r", 1.0)
    assert cache.load("s", "digest", 1.0) is None


@given(st.lists(st.tuples(st.text(), st.dictionaries(st.text(), st.text() | st.integers()))))
def test_any_tool_comes_back(
    tmp_path_factory: pytest.TempPathFactory, definitions: list[tuple[str, dict[str, str | int]]]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "cache"
    tools = tuple(
        Tool(name, rest, plain=definition_is_plain(name, rest, None))
        for name, members in definitions
        for rest in [json.dumps({"schema": members}, ensure_ascii=len(name) % 2 == 0)[1:-1].encode()]
    )
    catalog = Catalog(tools=tools)
    cache = CatalogCache(folder)
    cache.store("s", "digest", catalog, "modern", "r", 1.0)
    cached = cache.load("s", "digest", 1.0)
    assert cached is not None
    assert cached.catalog == catalog


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"inputSchema": {', b'"inputSchema":\n{'),
        (b'"inputSchema": {', b'"inputSchema":\r{'),
        (b'{"inputSchema": {', b'{"name":"other","inputSchema": {'),
        (b'{"inputSchema": {"type":"object", "x":1.0e2},', b'["inputSchema", {"type":"object", "x":1.0e2},'),
        (b'"\\u00e4 ', b'"\xe4 '),
        (b'["","dHJ1ZQ=="]', b'["","dHJ1ZQp9"]'),
        (b'["","dHJ1ZQ=="]', b'["fQ==","dHJ1ZQ=="]'),
        (b'"size":1', b'"size":-1'),
        (b'{"uri":"a:1",', b'{"uri":"mcpd://s/a:2",'),
        (b'{"uri":"a:1",', b'{"uri":"a:\\u0000",'),
        (b'{"uriTemplate":"a:{x}",', b'{"uri":"a:{x}",'),
        (b'{"name":"p"}', b"7"),
        (b'"required":true', b'"required":1'),
    ],
)
def test_a_file_whose_texts_would_break_an_agents_line_is_none(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    cache = CatalogCache(tmp_path)
    cache.store("s", "digest", CATALOG, "modern", "r", 1.0)
    path = tmp_path / "catalogue" / "s.json"
    text = path.read_bytes()
    assert text.count(before) == 1
    path.write_bytes(text.replace(before, after))
    assert cache.load("s", "digest", 1.0) is None
    path.write_bytes(text)
    assert cache.load("s", "digest", 1.0) is not None


def test_a_file_is_not_believed_that_its_text_is_plain(tmp_path: Path) -> None:
    """What is hidden in a definition is looked for again (n18)."""
    tool = Tool("t", '"description":"a\u200bb"'.encode(), plain=True)
    cache = CatalogCache(tmp_path)
    cache.store("s", "digest", Catalog(tools=(tool,)), "modern", "r", 1.0)
    cached = cache.load("s", "digest", 1.0)
    assert cached is not None
    assert [tool.plain for tool in cached.catalog.tools] == [False]


@pytest.mark.parametrize(
    ("annotations", "entry"),
    [
        (Annotations(read_only_hint=True), b'"inputSchema":{}'),
        (Annotations(read_only_hint=True), b'"annotations":{"readOnlyHint":false}'),
        (Annotations(), b'"annotations":{"destructiveHint":true}'),
        (
            Annotations(destructive_hint=True),
            b'"annotations":{"destructiveHint":true,"destructiveHint":true}',
        ),
        (Annotations(), b'"annotations":"none"'),
    ],
)
def test_a_file_is_not_believed_what_no_agent_is_shown(
    tmp_path: Path, annotations: Annotations, entry: bytes
) -> None:
    """Policy reads the hints that agents and pins see, not others that somebody wrote beside them (b11)."""
    cache = CatalogCache(tmp_path)
    cache.store("s", "digest", Catalog(tools=(Tool("t", entry, annotations),)), "modern", "r", 1.0)
    assert cache.load("s", "digest", 1.0) is None


def test_a_file_makes_no_wrapper_and_no_task_of_a_servers_tool(tmp_path: Path) -> None:
    cache = CatalogCache(tmp_path)
    for odd in (Tool("t", b"", wraps="resources/list"), Tool("t", b"", task="required")):
        cache.store("s", "digest", Catalog(tools=(odd,)), "modern", "r", 1.0)
        assert cache.load("s", "digest", 1.0) is None
    whole = Tool("t", b'"execution":{"taskSupport":"required"}', task="required", plain=True)
    cache.store("s", "digest", Catalog(tools=(whole,)), "modern", "r", 1.0)
    assert cache.load("s", "digest", 1.0) is not None
