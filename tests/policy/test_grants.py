"""What a grant covers: DESIGN 8.4, D10, n24."""

from __future__ import annotations

import json
import posixpath
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mcpd.policy.grants import Condition, Grant, Request, Test, climbs, covers, is_under, said
from mcpd.policy.terms import RISKS, Risk

NOW = 1_000_000.0


def grant(*conditions: Condition, **fields: Any) -> Grant:
    usual: dict[str, Any] = {
        "id": "ab12",
        "agent": "coder",
        "server": "fs",
        "destination": "d1",
        "tool": "write",
        "exact": True,
        "lifespan": "forever",
    }
    return Grant(**{**usual, "conditions": conditions, **fields})


def request(arguments: str = "{}", **fields: Any) -> Request:
    usual: dict[str, Any] = {
        "agent": "coder",
        "session": "s1",
        "server": "fs",
        "destination": "d1",
        "tool": "write",
        "risk": "high",
    }
    return Request(**{**usual, "arguments": arguments.encode(), **fields})


def covered(given: Grant, asked: Request, used: int = 0, now: float = NOW) -> bool:
    return covers(given, asked, used, now)


def where(argument: str, test: Test, value: str) -> Grant:
    return grant(Condition(argument, test, value))


@pytest.mark.parametrize("other", ["agent", "server", "destination", "tool"])
def test_it_covers_what_it_names_and_nothing_else(other: str) -> None:
    assert covered(grant(), request())
    assert not covered(grant(), request(**{other: "other"}))
    assert not covered(grant(), request(**{other: ""}))


def test_it_may_be_for_every_agent_and_the_operator() -> None:
    every = grant(agent="*")
    assert covered(every, request())
    assert covered(every, request(agent="other"))
    assert covered(every, request(agent=""))
    # A name is no pattern.
    assert not covered(grant(agent="cod*"), request())
    assert covered(grant(agent=""), request(agent=""))
    assert not covered(grant(agent=""), request())


@pytest.mark.parametrize(
    ("tool", "exact", "risk", "covers_it"),
    [
        # D10: at high risk only a grant that names the tool.
        ("write", True, "high", True),
        ("write", True, "medium", True),
        ("write", True, "low", True),
        ("write", False, "high", False),
        ("w*", False, "high", False),
        ("*", False, "high", False),
        ("w*", False, "medium", True),
        ("*", False, "low", True),
        ("r*", False, "low", False),
        # A name with a star in it is a name.
        ("w*", True, "low", False),
    ],
)
def test_a_pattern_covers_at_most_medium(tool: str, exact: bool, risk: Risk, covers_it: bool) -> None:
    assert covered(grant(tool=tool, exact=exact), request(risk=risk)) is covers_it


@pytest.mark.parametrize(
    ("fields", "used", "now", "session", "alive"),
    [
        ({"lifespan": "forever"}, 10_000, NOW, "s1", True),
        ({"lifespan": "once"}, 0, NOW, "s1", True),
        ({"lifespan": "once"}, 1, NOW, "s1", False),
        ({"lifespan": "count", "count": 3}, 2, NOW, "s1", True),
        ({"lifespan": "count", "count": 3}, 3, NOW, "s1", False),
        ({"lifespan": "until", "until": NOW}, 0, NOW - 1, "s1", True),
        ({"lifespan": "until", "until": NOW}, 0, NOW, "s1", False),
        ({"lifespan": "session", "session": "s1"}, 99, NOW, "s1", True),
        ({"lifespan": "session", "session": "s1"}, 0, NOW, "s2", False),
        ({"lifespan": "session", "session": "s1"}, 0, NOW, "", False),
    ],
)
def test_lifespans(fields: dict[str, Any], used: int, now: float, session: str, alive: bool) -> None:
    assert covered(grant(**fields), request(session=session), used, now) is alive


@pytest.mark.parametrize(
    "fields",
    [
        {"lifespan": "session"},
        {"lifespan": "until"},
        {"lifespan": "until", "until": -1.0},
        {"lifespan": "count"},
        {"lifespan": "count", "count": -2},
        {"lifespan": "once", "count": 1},
        {"lifespan": "forever", "until": 5.0},
        {"lifespan": "forever", "session": "s1"},
        {"server": ""},
        {"tool": ""},
    ],
)
def test_a_grant_without_its_end_or_its_subject_is_none(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        grant(**fields)
    # The same where one is read back.
    whole = {**msgspec.to_builtins(grant()), **fields}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(whole, Grant)


@pytest.mark.parametrize(
    ("argument", "test", "value"),
    [
        ("", "equals", "1"),
        ("a", "equals", "{"),
        ("a", "equals", "NaN"),
        ("a", "equals", '{"b":1,"b":2}'),
        ("a", "prefix", ""),
        ("a", "glob", ""),
        ("a", "under", "notes"),
        ("a", "under", "~/notes"),
        ("a", "under", "/a\0"),
    ],
)
def test_a_condition_that_could_never_hold_is_none(argument: str, test: Test, value: str) -> None:
    with pytest.raises(ValueError):
        Condition(argument, test, value)


@pytest.mark.parametrize(
    ("value", "text", "holds"),
    [
        ('"x"', '{"a":"x"}', True),
        ('"x"', '{"a":"\\u0078"}', True),
        ('"x"', '{"a":"X"}', False),
        ('"x"', '{"a":["x"]}', False),
        ('""', '{"a":""}', True),
        ("1", '{"a":1}', True),
        ("1", '{"a":1.0}', False),  # the spelling of a number counts (n07)
        ("1", '{"a":1e0}', False),
        ("1", '{"a":"1"}', False),
        ("1", '{"a":true}', False),
        ("0", '{"a":false}', False),
        ("true", '{"a":true}', True),
        ("null", '{"a":null}', True),
        ("null", "{}", False),  # absent is not null
        ('{"x":1,"y":[2]}', '{"a":{"y":[2],"x":1}}', True),
        ('{"x":1}', '{"a":{"x":1,"y":2}}', False),
        ("[1,2]", '{"a":[2,1]}', False),
    ],
)
def test_equals(value: str, text: str, holds: bool) -> None:
    assert covered(where("a", "equals", value), request(text)) is holds


@pytest.mark.parametrize(
    ("test", "value", "text", "holds"),
    [
        ("prefix", "git ", '{"a":"git status"}', True),
        ("prefix", "git ", '{"a":"gitk"}', False),
        ("prefix", "git ", '{"a":["git a","git b"]}', True),
        ("prefix", "git ", '{"a":["git a","rm b"]}', False),
        ("prefix", "git ", '{"a":[]}', False),
        ("prefix", "git ", '{"a":["git a",1]}', False),
        ("prefix", "git ", '{"a":{"x":"git a"}}', False),
        ("prefix", "1", '{"a":12}', False),
        ("prefix", "https://a.org/x/", '{"a":"https://a.org/x/y"}', True),
        ("prefix", "https://a.org/x/", '{"a":"https://a.org/x/../y"}', False),
        ("prefix", "https://a.org/x/", '{"a":"https://a.org/x/%2e%2E/y"}', False),
        ("prefix", "notes", '{"a":"notes/a"}', True),
        ("prefix", "notes", '{"a":"notes/../../etc/passwd"}', False),
        ("prefix", "notes", '{"a":"notes\\\\..\\\\x"}', False),
        ("prefix", "git ", '{"a":"git log a..b"}', True),
        ("glob", "*.md", '{"a":"../../you/notes.md"}', False),
        ("glob", "*.md", '{"a":"/etc/passwd\\u0000.md"}', False),
        ("prefix", "git ", '{"a":"git \\u0000x"}', False),
        ("glob", "*.md", '{"a":"notes.md"}', True),
        ("glob", "*.md", '{"a":"notes.txt"}', False),
        ("glob", "n?te", '{"a":"note"}', True),
        ("glob", "(a+)+$", '{"a":"aaaa"}', False),  # no regular expression
        ("glob", "/home/me/*", '{"a":"/home/me/../you/x"}', False),
        ("glob", "/home/me/*", '{"a":"/home/me/x"}', True),
    ],
)
def test_prefix_and_glob(test: Test, value: str, text: str, holds: bool) -> None:
    assert covered(where("a", test, value), request(text)) is holds


@pytest.mark.parametrize(
    ("folder", "path", "holds"),
    [
        ("/home/me", "/home/me", True),
        ("/home/me", "/home/me/", True),
        ("/home/me", "/home/me/a/b", True),
        ("/home/me/", "/home/me/a", True),
        ("/home//./me/x/..", "/home/me/a", True),
        ("/home/me", "/home//me/./a", True),
        ("/home/me", "//home/me/a", True),
        ("/home/me", "/home/me/a/../b", True),
        ("/home/me", "/home/me/../me/b", True),
        ("/home/me", "/home/me/../you", False),
        ("/home/me", "/home/me/a/../../you", False),
        ("/home/me", "/home/me/../../../../etc/passwd", False),
        ("/home/me", "/home/meow", False),
        ("/home/me", "/home/Me/a", False),
        ("/home/me", "/home", False),
        ("/home/me", "home/me/a", False),
        ("/home/me", "a", False),
        ("/home/me", "", False),
        ("/home/me", "~/a", False),
        ("/home/me", "file:///home/me/a", False),
        ("/home/me", "/home/me/a\0/b", False),
        # What some server could take for a way up.
        ("/home/me", "/home/me/%2e%2e/you", False),
        ("/home/me", "/home/me/%252e%252e/you", False),
        ("/home/me", "/home/me/..%2fyou", False),
        ("/home/me", "/home/me/a/../%2e%2e/%2e%2e/etc", False),
        ("/home/me", "/home/me/..\\you", False),
        ("/home/me", "/home/me/..a", True),
        ("/home/me", "/home/me/100%", True),
        ("/", "/etc/passwd", True),
    ],
)
def test_a_path_under_a_folder(folder: str, path: str, holds: bool) -> None:
    text = json.dumps({"a": path})
    assert covered(where("a", "under", folder), request(text)) is holds


def test_every_path_of_a_list_must_be_under_the_folder() -> None:
    inside = where("paths", "under", "/n")
    assert covered(inside, request('{"paths":["/n/a","/n/b"]}'))
    assert not covered(inside, request('{"paths":["/n/a","/etc/b"]}'))
    assert not covered(inside, request('{"paths":[]}'))
    assert not covered(inside, request('{"paths":[["/n/a"]]}'))
    assert not covered(inside, request('{"paths":[null]}'))


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"Path":"/n/a"}',
        '{"path":"/n/a","Path":"/etc/passwd"}',
        '{"Path":"/etc/passwd","path":"/n/a"}',
        '{"path":"/n/a","PATH":null}',
        '{"path":"/n/a","\uff50ath":"/etc/passwd"}',  # full width
        '{"path":"/n/a","path":"/etc/passwd"}',
        '{"path":"/n/a","path":"/n/a"}',
        '{"path":null}',
        '{"path":5}',
        '{"inner":{"path":"/n/a"}}',
        '["path"]',
        '"path"',
        "",
        "nonsense",
        '{"path":"/n/a","x":NaN}',
        '{"a":' * 100_000,
    ],
)
def test_a_condition_on_what_is_absent_or_could_be_another_does_not_hold(text: str) -> None:
    assert covered(where("path", "under", "/n"), request('{"path":"/n/a"}'))
    assert not covered(where("path", "under", "/n"), request(text))


def test_sharp_s_and_the_kelvin_sign_fold_too() -> None:
    assert not covered(where("kiss", "equals", "1"), request('{"kiss":1,"\u212ai\u017fs":2}'))
    assert not covered(where("strasse", "equals", "1"), request('{"strasse":1,"stra\u00dfe":2}'))


def test_all_conditions_must_hold_and_other_arguments_are_free() -> None:
    both = grant(Condition("from", "under", "/n"), Condition("to", "under", "/n"))
    assert covered(both, request('{"from":"/n/a","to":"/n/b","mode":"fast"}'))
    assert not covered(both, request('{"from":"/n/a","to":"/etc/b"}'))
    assert not covered(both, request('{"from":"/n/a"}'))


def test_other_arguments_can_be_ruled_out() -> None:
    exactly = grant(Condition("path", "equals", '"/n"'), only=True)
    assert covered(exactly, request('{"path":"/n"}'))
    assert not covered(exactly, request('{"path":"/n","overwrite":true}'))
    assert not covered(exactly, request("{}"))
    assert covered(grant(only=True), request("{}"))
    assert not covered(grant(only=True), request('{"path":"/n"}'))
    assert not covered(grant(only=True), request("[]"))
    assert "no other arguments" in exactly.words


def test_bytes_that_are_no_text_do_not_hold() -> None:
    asked = msgspec.structs.replace(request(), arguments=b'{"a":"x\xff"}')
    assert not covered(where("a", "prefix", "x"), asked)


def test_words_for_people() -> None:
    assert grant().words == 'grant ab12 for tool "write" of server "fs"'
    conditions = (Condition("path", "under", "/n"), Condition("mode", "equals", "1.0"))
    told = grant(*conditions, tool="w*", exact=False).words
    assert told == 'grant ab12 for tools "w*" of server "fs" where path is under "/n" and mode = 1.0'


parts = st.sampled_from(["a", "b", "..", ".", "", "n", "me", "%2e%2e", "..\\", "a%"])
paths = st.lists(parts, max_size=7).map(lambda found: "/" + "/".join(found))


@given(paths, paths)
def test_what_holds_is_under_the_folder_for_the_file_system_too(folder: str, path: str) -> None:
    if is_under(folder, path):
        above = posixpath.normpath(folder).replace("//", "/")
        resolved = posixpath.normpath(path).replace("//", "/")
        assert (resolved + "/").startswith(above.rstrip("/") + "/")
        assert not climbs(resolved)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(json_values, json_values)
def test_equals_is_equality_of_json(one: object, other: object) -> None:
    condition = where("a", "equals", json.dumps(one))
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert covered(condition, request(json.dumps({"a": other}))) is same
    assert covered(condition, request(json.dumps({"a": one}, indent=1)))


@given(
    st.dictionaries(
        st.sampled_from(["path", "Path", "mode"]),
        st.sampled_from(["/n", "/n*x", ["/n"], 1, None]),
        max_size=3,
    ),
    st.sampled_from(["equals", "prefix", "glob", "under"]),
    st.sampled_from(RISKS),
    st.booleans(),
)
def test_one_more_condition_never_covers_more(
    arguments: dict[str, object], test: Test, risk: Risk, exact: bool
) -> None:
    asked = request(json.dumps(arguments), risk=risk)
    free = grant(tool="write" if exact else "*", exact=exact)
    condition = Condition("path", test, {"equals": '"/n"', "under": "/n"}.get(test, "/n*"))
    bound = grant(condition, tool=free.tool, exact=exact)
    if covered(bound, asked):
        assert covered(free, asked)
        assert "path" in arguments
        assert "Path" not in arguments


def test_arguments_are_read_once_for_many_grants_and_not_beyond_what_a_person_is_asked_about() -> None:
    condition = Condition(argument="path", test="prefix", value="/a")
    one = grant(condition)
    large = json.dumps({"path": "/a", "text": "x" * 1_100_000})
    assert not covers(one, request(large), 0, NOW)
    twice = '{"path": "/a", "path": "/a"}'
    for text in ('{"path": "/a"}', '{"path": "/a", "PATH": "/b"}', twice, "[]"):
        asked = request(text)
        read = replace(asked, said=said(asked.arguments))
        assert covers(one, read, 0, NOW) == covers(one, asked, 0, NOW) == (text == '{"path": "/a"}')
        # Nothing of what cannot be read counts as having no arguments.
        only = grant(only=True)
        assert covers(only, read, 0, NOW) == covers(only, asked, 0, NOW) is False
