"""A file before it counts: which line is wrong, and which word was meant."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from mcpd.config.check import findings, meant
from mcpd.config.load import load, reload
from mcpd.config.toml import Draft
from mcpd.errors import Failure
from mcpd.policy.patterns import Known

KNOWN = Known({"notes": frozenset({"read", "write"}), "idle": None})


def said(folder: Path, text: str, file: str = "config.toml") -> list[tuple[int, str, bool]]:
    """(line, place and message, certain) of everything there is to say."""
    path = folder / file
    found = reload(folder, {}, draft=Draft(path, text.encode()))
    out = findings(str(path), text, found, load(folder, {}).problems, KNOWN)
    assert {each.file for each in out} <= {str(path)}
    return [(each.line, f"{each.place}: {each.message}", each.certain) for each in out]


def test_a_good_file_needs_no_word(tmp_path: Path) -> None:
    text = """
schema = 1
[defaults]
approval = "always"
[tool_policies]
"notes__*" = { risk = "low", approval = "never", timeout = "5m" }
"idle__later" = { approval = "deny" }
[agents.reader]
allowed_tools = ["notes__*", "*__read_*"]
denied_tools = ["notes__write"]
auto_approve = ["notes__read"]
max_risk = "low"
"""
    assert said(tmp_path, text) == []


def test_every_slip_has_its_line_and_the_nearest_word(tmp_path: Path) -> None:
    text = """\
[defaults]
approval = "allways"
approval_wait = "1h"

[tool_policies]
"notes__*" = { risk = "hgih" }
"note__read" = { approval = "never" }
"notes__raed" = { approval = "never" }
notes = { approval = "deny" }
"notes__write" = { timeout = "2h" }

[agents.reader]
max_rsik = "low"

[agents.coder]
allowed_tools = [
    "notes__read",
    # a comment
    "nots__*",
]
denied_tools = ["notes__write"]
auto_approve = ["notes__write", "notes__other"]
"""
    found = said(tmp_path, text)
    expected = [
        (
            2,
            'defaults.approval: expected "never", "unless_auto_approved", "always" or "deny", found',
            True,
        ),
        (2, 'did you mean "always"?', True),
        (6, 'tool_policies."notes__*".risk: expected "low", "medium" or "high", found "hgih"', True),
        (6, 'did you mean "high"?; what it matches is denied', True),
        (9, "tool_policies.notes: names no tool", True),
        (
            13,
            'agents.reader.max_rsik: unknown field, did you mean "max_risk"?; the agent may use nothing',
            True,
        ),
        (7, 'tool_policies.note__read: no server is named "note", did you mean "notes"?', False),
        (8, 'tool_policies.notes__raed: server "notes" has no tool "raed" now, did you mean "read"?', False),
        (3, "defaults.approval_wait: a question ends after approval_deadline, 900 s", False),
        (19, 'agents.coder.allowed_tools[1]: no server is named "nots", did you mean "notes"?', False),
        (22, "agents.coder.auto_approve[0]: denied_tools takes all of it away again", False),
        (22, 'agents.coder.auto_approve[1]: server "notes" has no tool "other" now', False),
        (22, "agents.coder.auto_approve[1]: allowed_tools does not have it", False),
        (10, "tool_policies.notes__write.timeout: a call ends after timeout_max, 1800 s", False),
    ]
    for line, words, certain in expected:
        assert any((each[0], each[2]) == (line, certain) and words in each[1] for each in found), (
            line,
            words,
            found,
        )
    assert len(found) == len(expected) - 2, "two of the slips are looked for by two of their words"


def test_an_agents_and_a_servers_own_file(tmp_path: Path) -> None:
    assert said(tmp_path, 'schema = 1\ndenied_tools = ["notes"]', "agents.d/coder.toml") == [
        (
            2,
            "denied_tools[0]: names no tool: a tool is SERVER__TOOL, and all tools of a server are like"
            ' "notes__*"; the agent may use nothing',
            True,
        )
    ]
    text = 'command = "x"\n[default_policy]\napproval = "nevr"\n'
    [(line, words, certain)] = said(tmp_path, text, "servers.d/notes.toml")
    assert (line, certain) == (3, True)
    assert 'default_policy.approval: expected "never"' in words
    assert 'did you mean "never"?' in words


def test_what_does_not_go_with_another_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "agents.d").mkdir()
    (tmp_path / "agents.d" / "coder.toml").write_text("allowed_tools = []")
    text = "[agents.coder]\nopen = true\n"
    main = tmp_path / "config.toml"
    found = reload(tmp_path, {}, draft=Draft(main, text.encode()))
    before = load(tmp_path, {}).problems
    main.write_text(text)
    for known in (before, load(tmp_path, {}).problems):  # as a draft, and when it counts already
        [twice] = findings(str(main), text, found, known, KNOWN)
        assert (twice.file, twice.line) == (str(main), 1)
        assert "defined twice" in twice.message
    assert {each.file for each in load(tmp_path, {}).problems} == {
        str(main),
        str(tmp_path / "agents.d" / "coder.toml"),
    }, "whoever looks at either is told"


def test_what_other_files_had_wrong_before_is_none_of_this_file(tmp_path: Path) -> None:
    (tmp_path / "agents.d").mkdir()
    (tmp_path / "agents.d" / "coder.toml").write_text("nonsense = 1")
    assert said(tmp_path, "[agents.reader]\n") == []


@pytest.mark.parametrize(
    ("text", "line"), [("[a]\nb = \n", "line 2"), ("schema = 2", "schema"), ("a = 1\na = 2", "line 2")]
)
def test_what_is_no_configuration_at_all_is_refused_as_a_whole(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(Failure) as caught:
        reload(tmp_path, {}, draft=Draft(tmp_path / "config.toml", text.encode()))
    assert caught.value.data["place"] == line


@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("/home/u/mcpd/config.toml", "/home/u/mcpd/config.toml"),
        ("/tmp/draft.toml", "/home/u/mcpd/config.toml"),
        ("/home/u/mcpd/agents.d/a.toml", "/home/u/mcpd/agents.d/a.toml"),
        ("/repo/agents.d/a.toml", "/home/u/mcpd/agents.d/a.toml"),
        ("/repo/servers.d/a.toml", "/elsewhere/a.toml"),
        ("/elsewhere/a.toml", "/elsewhere/a.toml"),
    ],
)
def test_which_file_a_draft_is_meant_for(file: str, place: str) -> None:
    assert meant(PurePath(file), PurePath("/home/u/mcpd"), PurePath("/elsewhere")) == PurePath(place)


TABLES = ["servers", "agents", "tool_policies", "defaults", "overrides", "default_policy", "leaks"]
FIELDS = [
    "allowed_tools",
    "denied_tools",
    "auto_approve",
    "max_risk",
    "approver",
    "risk",
    "approval",
    "timeout",
]
SETTINGS = ["approval_wait", "approval_deadline", "notify", "command", "args"]
NAMES = ["a", "a__b", "*", "", "notes__*", "x.y", "low"]
WORDS = st.sampled_from([*TABLES, *FIELDS, *SETTINGS, *NAMES])
VALUES = st.recursive(
    WORDS | st.text(max_size=3) | st.integers(-2, 10) | st.booleans() | st.datetimes() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=15,
)


@given(
    st.dictionaries(WORDS, VALUES, max_size=5),
    st.sampled_from(["config.toml", "agents.d/a.toml", "servers.d/a.toml"]),
)
def test_whatever_stands_in_a_file_something_is_said_of_it_in_its_lines(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, object], file: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "nowhere" / file
    text = tomli_w.dumps(data)
    try:
        found = reload(path.parents[file.count("/")], {}, draft=Draft(path, text.encode()))
    except Failure:
        return  # as a whole, see above
    for each in findings(str(path), text, found, (), KNOWN):
        assert each.message
        assert 0 <= each.line <= text.count("\n") + 1
        # What has a place in the file has a line there.
        assert each.line or not each.place or each.place.partition(".")[0] not in data
