"""Whose instance a session uses, and what several come to (n04)."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.api.status import State, Status
from mcpd.config.spec import Faulty, Instance, Server
from mcpd.upstream.instance import MAIN, Scope, overall, scope_of

SERVERS = {kind: Server(name="s", source="", command="x", instance=kind) for kind in get_args(Instance)}


@pytest.mark.parametrize(
    ("instance", "agent", "root", "scope"),
    [
        ("shared", "coder", "/p", MAIN),
        ("agent", "coder", "/p", Scope("agent", "coder")),
        ("agent", "coder", "", Scope("agent", "coder")),
        ("project", "coder", "/p", Scope("project", "/p")),
        ("project", "coder", "", Scope("project", "")),
        ("agent", "", "", MAIN),
        ("project", "", "", MAIN),
    ],
)
def test_whose_instance_it_is(instance: Instance, agent: str, root: str, scope: Scope) -> None:
    assert scope_of(SERVERS[instance], agent, root) == scope


def test_what_cannot_be_used_has_one_instance() -> None:
    assert scope_of(Faulty("s", "", "bad_definition", "no"), "coder", "/p") is MAIN


def test_scopes_in_words() -> None:
    words = [
        str(scope) for scope in (MAIN, Scope("agent", "coder"), Scope("project", "/p"), Scope("project"))
    ]
    assert words == ["", "agent coder", "project /p", "project (none)"]


@pytest.mark.parametrize(
    ("main", "others", "told"),
    [
        ("idle", [], "idle"),
        ("idle", ["idle", "connected"], "connected"),
        ("failed", ["connected", "crashed"], "connected"),
        ("idle", ["crashed"], "crashed"),
        ("connected", ["failed"], "connected"),
        ("failed", ["idle"], "failed"),
        ("idle", ["restarting", "failed"], "restarting"),
        ("disabled", ["connected"], "disabled"),
        ("held", ["connected"], "held"),
    ],
)
def test_a_server_is_told_of_by_the_instance_that_says_most(
    main: State, others: list[State], told: State
) -> None:
    assert overall(Status(state=main), [Status(state=state) for state in others]).state == told


@given(st.sampled_from(get_args(State)), st.lists(st.sampled_from(get_args(State))))
def test_it_is_always_one_of_them(main: State, others: list[State]) -> None:
    mine = Status(state=main, pid=1)
    statuses = [Status(state=state, pid=2) for state in others]
    found = overall(mine, statuses)
    assert found is mine or found in statuses
    if found.state == main:
        assert found is mine
