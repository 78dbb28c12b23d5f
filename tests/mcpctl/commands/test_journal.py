"""Reading the journal."""

from __future__ import annotations

import json
import time
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcpctl import cli
from mcpctl.commands import journal
from mcpd.api.journal import MOST, Journal, Kind, Outcome, QueryJournal, Recorded
from tests.mcpctl.harness import Control, run


def entry(number: int, **fields: Any) -> dict[str, Any]:
    return typing.cast(
        "dict[str, Any]", msgspec.to_builtins(Recorded(id=number, at=1e9 + number, agent="coder", **fields))
    )


def journal_of(*entries: dict[str, Any]) -> Any:
    """Answers as the daemon does, of conditions only the numbers."""

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        wanted = msgspec.convert(params, QueryJournal)
        if wanted.after is not None:
            found = [each for each in entries if each["id"] > wanted.after][: wanted.limit]
            return page(found, found[-1]["id"] if found else wanted.after)
        below = [each for each in reversed(entries) if not wanted.before or each["id"] < wanted.before]
        found = below[: wanted.limit]
        return page(found, found[-1]["id"] if len(below) > len(found) else 0)

    return answer


def page(entries: list[dict[str, Any]], after: int, *problems: str) -> dict[str, Any]:
    return {"entries": entries, "next": after, "problems": list(problems)}


CALL = {"server": "fs", "tool": "read", "method": "tools/call", "decision": "allow", "outcome": "ok"}


def test_a_long_name_hides_nothing_of_what_came_of_it(daemon: Control, folder: Path) -> None:
    daemon.answers["journal.query"] = journal_of(entry(1, **{**CALL, "tool": "L" * 300}))
    said = run(folder, "journal").stdout.splitlines()[-1]
    assert "fs__LLL" in said
    assert "…" in said
    assert said.index(" ok ") < 120


def test_the_newest_entries_stand_last(daemon: Control, folder: Path) -> None:
    daemon.answers["journal.query"] = journal_of(
        entry(1, **CALL),
        entry(
            2,
            **{**CALL, "tool": "write"},
            because="risk high: b11; allowed: grant g7",
            duration=0.002,
            risk="high",
        ),
        entry(
            3,
            kind="approval",
            approval="q7",
            server="fs",
            tool="write",
            outcome="approved",
            proof="unverified",
        ),
        entry(4, **{**CALL, "method": "resources/read", "tool": "read_resource", "decision": "ask"}),
        entry(5, kind="change", method="servers.trust", server="fs", outcome="ok", pid=7),
        entry(6, **{**CALL, "decision": "ask", "outcome": "pending"}),
        entry(7, **{**CALL, "outcome": ""}, kind="decision"),
    )
    done = run(folder, "journal", "-n", "6")
    assert done.returncode == 0
    head, *lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert head.split() == ["NO", "TIME", "AGENT", "WHAT", "OUTCOME", "TOOK", "WHY"]
    assert [line.split()[0] for line in lines] == ["2", "3", "4", "5", "6", "7"]
    assert ["fs__write" in lines[0], "2 ms" in lines[0], "allowed: grant g7" in lines[0]] == [True] * 3
    assert "approval q7 fs__write approved (unverified)" in lines[1]
    assert "resources/read fs__read_resource ok, asked" in lines[2]
    assert "change servers.trust fs" in lines[3]
    assert "fs__read pending" in lines[4]
    assert "decision fs__read allow" in lines[5]


def test_json_is_a_line_an_entry(daemon: Control, folder: Path) -> None:
    entries = [entry(1, **CALL), entry(2, because="ü\x1b", **CALL)]
    daemon.answers["journal.query"] = journal_of(*entries)
    done = run(folder, "journal", "--json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == entries
    assert "\x1b" not in done.stdout


def test_conditions_are_sent_by_name(daemon: Control, folder: Path) -> None:
    daemon.answers["journal.query"] = page([], 0)
    began = time.time()
    words = "--tool fs__read_* --agent coder --kind request --kind grant --outcome denied --decision deny"
    done = run(
        folder, "journal", *words.split(), "--risk", "high", "--id", "q1", "--text", "x y", "--since", "2h"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "mcpctl: nothing in the journal fits\n")
    params = daemon.params("journal.query")
    since = params.pop("since")
    assert began - 7200 - 1 < since < time.time() - 7200 + 1
    assert params == {
        "server": "fs",
        "tool": "read_*",
        "agent": "coder",
        "kinds": ["request", "grant"],
        "outcomes": ["denied"],
        "decision": "deny",
        "risk": "high",
        "id": "q1",
        "text": "x y",
        "limit": 50,
        "before": 1,
    }


@pytest.mark.parametrize("option", ["--outcome", "--kind", "--decision", "--risk"])
def test_a_word_that_is_never_recorded_is_refused_with_those_that_are(
    daemon: Control, folder: Path, option: str
) -> None:
    done = run(folder, "journal", option, "denyed")
    assert (done.returncode, done.stdout) == (2, "")
    known = {"--outcome": "denied", "--kind": "request", "--decision": "deny", "--risk": "high"}[option]
    assert ("denyed" in done.stderr, known in done.stderr.rpartition("denyed")[2]) == (True, True)
    assert not daemon.requests


def test_more_than_an_answer_holds_is_read_in_pages(daemon: Control, folder: Path) -> None:
    daemon.answers["journal.query"] = journal_of(*(entry(number, **CALL) for number in range(1, 1301)))
    done = run(folder, "journal", "--json", "-n", "1200")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == list(range(101, 1301))


def test_following_goes_on_where_the_list_ended(daemon: Control, folder: Path) -> None:
    entries = [entry(1, **CALL), entry(2, **CALL), entry(3, tool="late", outcome="denied", because="\x1b[2J")]

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        if "after" not in params:
            return journal_of(*entries[:2])(params)  # type: ignore[no-any-return]
        if params["after"] == 2:
            return page([], 2)  # nothing new for as long as the daemon waits
        raise AssertionError(params)

    asked: list[int] = []

    def twice(params: dict[str, Any]) -> dict[str, Any]:
        if params.get("after") == 2:
            asked.append(2)
            if len(asked) == 2:
                daemon.hang_up_after.add("journal.query")
                return page([entries[2]], 3)
        return answer(params)

    daemon.answers["journal.query"] = twice
    done = run(folder, "journal", "--follow", "-n", "1")
    assert done.returncode == 3
    first, second = done.stdout.splitlines()
    assert "fs__read" in first
    assert "late" in second
    assert "\\u001b[2J" in second


def test_one_entry_in_full(daemon: Control, folder: Path) -> None:
    daemon.answers["journal.query"] = journal_of(
        entry(4, **CALL),
        entry(5, **CALL, because="first; second", shape='{"path":"string"}', waited=1.5, request_bytes=12),
        entry(7, **CALL),
    )
    done = run(folder, "journal", "5")
    found = dict(line.split(None, 1) for line in done.stdout.splitlines() if line[0] != " ")
    assert (found["id"], found["shape"], found["waited"]) == ("5", '{"path":"string"}', "1.5 s")
    assert "exe" not in found
    assert found["because"] == "first"
    assert " second\n" in done.stdout
    assert run(folder, "journal", "6").returncode == 1


@pytest.mark.parametrize(
    "words",
    [
        *("--agent=x", "--agent=-", "--server=x", "--tool=x", "--kind=grant", "--outcome=ok", "--risk=low"),
        *("--decision=deny", "--id=q1", "--text=x", "--since=2h", "--until=2h", "--follow", "--lines=0"),
    ],
)
def test_beside_a_number_nothing_chooses_entries(daemon: Control, folder: Path, words: str) -> None:
    done = run(folder, "journal", "3", words)
    assert (done.returncode, done.stdout) == (2, "")
    name = words.partition("=")[0]
    assert f"mcpctl: {name} means nothing beside the number of an entry\n" in done.stderr
    assert not daemon.requests


def test_every_option_chooses_entries_or_is_of_all_commands() -> None:
    parser = cli.make_parser(journal.COMMANDS[0])
    others = {"help", "json", "socket", "no_spawn", "entry"}
    assert {action.dest for action in parser._actions} == {*journal.CHOOSING, *others}


def test_why_nothing_is_written_is_said(daemon: Control, folder: Path) -> None:
    daemon.answers["journal.query"] = page([], 0, "cannot write the journal: disk full")
    assert "disk full" in run(folder, "journal").stderr


def test_mcpctl_knows_what_the_daemon_knows() -> None:
    assert typing.get_args(Kind) == journal.KINDS
    assert typing.get_args(Outcome) == ("", *journal.OUTCOMES)
    assert journal.PAGE == MOST
    assert Journal.__struct_fields__ == ("entries", "next", "problems")


@pytest.mark.parametrize(("said", "asked"), [("-", ""), ("(operator)", ""), ("operator", "operator")])
def test_the_operator_is_found_as_the_list_calls_them(
    daemon: Control, folder: Path, said: str, asked: str
) -> None:
    daemon.answers["journal.query"] = journal_of({**entry(1, **CALL, pid=7), "agent": ""})
    assert "  (operator)  " in run(folder, "journal", f"--agent={said}").stdout
    assert daemon.params("journal.query")["agent"] == asked
