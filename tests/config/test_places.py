"""Lines and places of keys in TOML texts."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from mcpd.config.places import line_of, lines, spans

TEXT = """\
# a comment = { not a key
schema = 1
"quoted # key" = 'it # is'

[tool_policies]
"a__*" = { approval = "never", timeout = "1m" } # why
'b__t' = { risk = "low" }
[servers . x.env]   # spaces
K = "a \\" # no comment"
multi = \"\"\"
[not.a.table]
x = 1 \\\"\"\" ""\"\"\"
[servers.x]
args = [
    "one", # , "not a member"
    # "nor this",
    "two",
]
when = 1979-05-27 07:32:00
[[list]]
a.b = [[1], [2, {c = 3}]]
[[list]]
[list.sub]
d = 1
"""


def test_every_place_has_its_line() -> None:
    assert lines(TEXT) == {
        "schema": 2,
        '"quoted # key"': 3,
        "tool_policies": 5,
        'tool_policies."a__*"': 6,
        'tool_policies."a__*".approval': 6,
        'tool_policies."a__*".timeout': 6,
        "tool_policies.b__t": 7,
        "tool_policies.b__t.risk": 7,
        "servers": 8,
        "servers.x": 8,
        "servers.x.env": 8,
        "servers.x.env.K": 9,
        "servers.x.env.multi": 10,
        "servers.x.args": 14,
        "servers.x.args[0]": 15,
        "servers.x.args[1]": 17,
        "servers.x.when": 19,
        "list": 20,
        "list[0]": 20,
        "list[0].a": 21,
        "list[0].a.b": 21,
        "list[0].a.b[0]": 21,
        "list[0].a.b[0][0]": 21,
        "list[0].a.b[1]": 21,
        "list[0].a.b[1][0]": 21,
        "list[0].a.b[1][1]": 21,
        "list[0].a.b[1][1].c": 21,
        "list[1]": 22,
        "list[1].sub": 23,
        "list[1].sub.d": 24,
    }


def test_a_place_without_a_line_has_that_of_what_is_around_it() -> None:
    found = lines(TEXT)
    assert line_of(found, "servers.x.args[7]") == 14
    assert line_of(found, "servers.x.url") == 8
    assert line_of(found, 'tool_policies."a__*".risk') == 6
    assert line_of(found, "agents.x") == 0
    assert line_of(found, "") == 0


KEYS = st.text(max_size=4) | st.sampled_from(["a", "a.b", "#", "[x]", '"', "ä"])
TOML = st.recursive(
    st.text(max_size=5) | st.integers(-9, 9) | st.booleans() | st.floats(allow_nan=False) | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, TOML, max_size=4))
def test_a_span_holds_the_value_of_its_place(data: dict[str, Any]) -> None:
    text = tomli_w.dumps(data)
    read = tomllib.loads(text)
    tables = {span.path for span in spans(text) if _at(read, span.path) == {}}
    for span in spans(text):
        value: Any = _at(read, span.path)
        if not isinstance(value, dict) and span.path not in tables:
            assert tomllib.loads(f"k = {text[span.start : span.end]}")["k"] == value
        assert text.count("\n", 0, span.start) + 1 >= span.line


def _at(data: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        data = data[part]
    return data


@pytest.mark.parametrize(
    "value",
    [
        "+1_000.5e-3",
        "-inf",
        "nan",
        "0xdead_beef",
        "07:32:00.999",
        "1979-05-27",
        "1979-05-27t00:32:00-07:00",
        '""',
        "''",
        '""""""',
        '"""a"" """',
        '"""""two quotes"""""',
        "'''\n'it'' is''''",
        '"\\\\"',
        '"\\""',
        '"# ] } ="',
        "[]",
        "[ # ]\n]",
        "[1,\n# two, ]\n2,]",
        "{}",
        "{ a . b = 1, 'c' = [{}] }",
    ],
)
@pytest.mark.parametrize("key", ["k", '"k # = "', "'k]'", '"\\u006b"', "k . k"])
def test_every_way_to_write_a_value(key: str, value: str) -> None:
    text = f"# before\n[ table . {key} ] # [x]\n{key} = {value} # after = 1\nlast = 1\n"
    read = tomllib.loads(text)
    found = {span.path: text[span.start : span.end] for span in spans(text)}
    (path,) = [path for path, piece in found.items() if piece == value]
    assert repr(_at(read, path)) == repr(tomllib.loads(f"k = {value}")["k"])
    assert found[(*_parent(path, key), "last")] == "1"


def _parent(path: tuple[str | int, ...], key: str) -> tuple[str | int, ...]:
    return path[:-2] if "." in key else path[:-1]
