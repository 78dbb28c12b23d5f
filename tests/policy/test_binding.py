"""What an answer is bound to (n07): the same call whatever its spelling, another one after any change."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.policy.binding import Bound, canonical, digest

BOUND = Bound(
    agent="coder",
    server="files",
    destination="d1",
    tool="write",
    method="tools/call",
    pin="p1",
    arguments=b'{"path":"/a","n":1}',
    rules=("risk high: x", "approval always: y", "timeout 60 s: z"),
)

#: Values of JSON as Python reads them; floats are spelled in the tables below.
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=8), values, min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"b":2}', b'{ "b" : 2,\n"a":1 }'),
        (b'{"a":"\\u00e9\\/"}', '{"\\u0061":"é/"}'.encode()),
        (b'{"a":{"x":[1,{"p":1,"q":2}],"y":null}}', b'{"a":{"y":null,"x":[1,{"q":2,"p":1}]}}'),
        ('{"a":"\U0001f600"}'.encode(), b'{"a":"\\ud83d\\ude00"}'),
    ],
)
def test_the_same_in_another_spelling(one: bytes, other: bytes) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1}', b'{"a":1.0}'),
        (b'{"a":1e2}', b'{"a":1E2}'),
        (b'{"a":100}', b'{"a":1e2}'),
        (b'{"a":0}', b'{"a":-0}'),
        (b'{"a":10000000000000000000000}', b'{"a":10000000000000000000001}'),
        (b'{"a":0.1}', b'{"a":0.10}'),
        (b'{"a":1}', b'{"a":"1"}'),
        (b'{"a":[1,2]}', b'{"a":[2,1]}'),
        (b'{"a":null}', b"{}"),
        (b'{"a":true}', b'{"a":"true"}'),
        # Composed and decomposed letters are two file names; so are these two that look the same.
        ('{"a":"\u00e9"}'.encode(), '{"a":"e\u0301"}'.encode()),
        (b'{"a":"a"}', '{"a":"\u0430"}'.encode()),
        (b'{"a":"x"}', '{"a":"x\u200b"}'.encode()),
        (b'{"a":1,"A":2}', b'{"a":2,"A":1}'),
        # What has no single meaning is the same as itself alone.
        (b'{"a":1,"a":2}', b'{"a":2}'),
        (b'{"a":1,"a":2}', b'{"a":2,"a":2}'),
        (b'{"a":NaN}', b'{"a":null}'),
        (b'{"a":"\\ud800"}', b'{"a":"\\ud801"}'),
    ],
)
def test_not_the_same(one: bytes, other: bytes) -> None:
    assert canonical(one) != canonical(other)
    assert digest(msgspec.structs.replace(BOUND, arguments=one)) != digest(
        msgspec.structs.replace(BOUND, arguments=other)
    )


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b'{"a":' * 5000 + b"1" + b"}" * 5000])
def test_what_is_no_json_is_bound_as_it_is(raw: bytes) -> None:
    assert canonical(raw).endswith(raw)
    assert canonical(raw) != canonical(raw + b" ")


@given(objects, st.randoms(use_true_random=False))
def test_order_white_space_and_escapes_never_count(value: dict[str, Any], random: Any) -> None:
    def shuffled(item: Any) -> Any:
        if isinstance(item, dict):
            names = list(item)
            random.shuffle(names)
            return {name: shuffled(item[name]) for name in names}
        return [shuffled(each) for each in item] if isinstance(item, list) else item

    plain = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    other = json.dumps(shuffled(value), indent=random.choice((None, 1)), ensure_ascii=True).encode()
    assert canonical(plain) == canonical(other)


@given(objects, objects)
def test_other_arguments_have_another_name(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = (canonical(json.dumps(value).encode()) for value in (one, other))
    assert (first == second) == (json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True))


#: Every component that n07 and n24 bind, with strategies for another value.
CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "agent": st.text(),
    "server": st.text(),
    "destination": st.text(),
    "tool": st.text(),
    "method": st.text(),
    "pin": st.text(),
    "arguments": objects.map(lambda value: json.dumps(value).encode()),
    "rules": st.lists(st.text(), max_size=4).map(tuple),
}


def test_every_component_is_among_them() -> None:
    assert CHANGES.keys() == set(Bound.__struct_fields__)


@given(st.data(), st.sampled_from(sorted(CHANGES)))
def test_any_change_of_any_component_is_another_call(data: st.DataObject, field: str) -> None:
    """The mutation property of n07."""
    value = data.draw(CHANGES[field])
    changed = msgspec.structs.replace(BOUND, **{field: value})
    same = getattr(BOUND, field) == value
    if field == "arguments":
        same = json.loads(BOUND.arguments) == json.loads(value)
    assert (digest(changed) == digest(BOUND)) == same


@given(st.text(), st.text())
def test_components_do_not_run_into_each_other(one: str, other: str) -> None:
    joined = msgspec.structs.replace(BOUND, server=one + other, tool="")
    apart = msgspec.structs.replace(BOUND, server=one, tool=other)
    assert (digest(joined) == digest(apart)) == (other == "")
