"""What changed between two readings of the files, in words."""

from __future__ import annotations

from msgspec.structs import replace

from mcpd.config.change import Difference, applied, diff
from mcpd.config.spec import Agent, Config, Faulty, Policy, Server, Settings
from mcpd.policy.terms import Leaks

A = Server(name="a", source="a.toml", command="x", args=("1",), env={"K": "v"}, start="eager", replay="auto")
BROKEN = Faulty("a", "a.toml", "bad_definition", "command: expected a text, found a number")


def config(*servers: Server | Faulty, agents: tuple[Agent, ...] = (), **more: object) -> Config:
    return Config(
        servers={server.name: server for server in servers if isinstance(server, Server)},
        faulty={server.name: server for server in servers if isinstance(server, Faulty)},
        agents={agent.name: agent for agent in agents},
        **more,  # type: ignore[arg-type]
    )


def test_diff_names_servers_by_what_happened_to_them() -> None:
    b, c, d = (replace(A, name=name) for name in "bcd")
    old = config(A, b, c, replace(BROKEN, name="d"))
    new = config(A, replace(b, command="y"), d, replace(A, name="e"))
    assert diff(old, new) == Difference(added=("e",), changed=("b", "d"), removed=("c",), unchanged=("a",))
    assert diff(old, old).unchanged == ("a", "b", "c", "d")


def test_what_is_applied_is_shown_in_words_and_without_secrets() -> None:
    far = Server(name="far", source="far.toml", url="https://u:hush@example.com", headers={"X": "hush"})
    old = config(
        replace(A, name="b.c", env={"K": "hush"}),
        replace(A, name="gone"),
        replace(A, name="same"),
        replace(BROKEN, name="sick"),
        agents=(Agent(name="old"), Agent(name="wide", allowed_tools=("a__*",))),
        tool_policies=(("a__*", Policy(approval="always")), ("b__*", Policy(risk="low"))),
    )
    new = config(
        replace(A, name="b.c", command="y", env={"K": "hush2"}, enabled=False),
        replace(A, name="same"),
        replace(A, name="sick"),
        replace(A, name="new", policy=Policy(approval="never")),
        far,
        agents=(Agent(name="new", source="new.toml"), Agent(name="wide")),
        tool_policies=(
            ("a__*", Policy(approval="never", timeout=0)),
            ("c__*", Policy(approval="deny")),
            ("d__*", Policy(leaks=Leaks(arguments="allow"))),
        ),
        settings=Settings(risk="low"),
    )
    shown = applied(old, new)
    assert [f"{place}: {what}" for place, what in shown] == [
        'servers."b.c": command, env, enabled changed: ["y", "1"]; env: K changed',
        "servers.far: new: https://[SECRET]@example.com; headers: X added",
        "servers.gone: removed",
        'servers.new: new: ["x", "1"]; env: K added',
        'servers.sick: mended: ["x", "1"]; env: K added',
        "agents.new: new: denied_tools [], spelling server__tool, open False, max_risk high,"
        " auto_approve [], approver person",
        "agents.old: removed",
        'agents.wide: allowed_tools ["a__*"] -> unset',
        'tool_policies."a__*": approval always -> never; timeout unset -> 0',
        'tool_policies."b__*": removed',
        'tool_policies."c__*": new: approval deny',
        'tool_policies."d__*": new: leaks arguments allow',
        "defaults.risk: medium -> low",
    ]
    assert applied(new, new) == ()
    [(_, what)] = applied(config(A), config(replace(A, policy=Policy(risk="high"))))
    assert what == "default_policy changed"
    env = {"SAME": "hunter2", "OTHER": "hunter2", "GONE": ""}
    old_env = replace(A, env=env)
    new_env = replace(A, env={"SAME": "hunter2", "OTHER": "hunter3", "LD_PRELOAD": "/tmp/x.so"})
    [(_, what)] = applied(config(old_env), config(new_env))
    assert what.endswith("; env: GONE removed, LD_PRELOAD added, OTHER changed")
    assert "hunter" not in what
    assert "/tmp" not in what
    [(_, what)] = applied(config(A), config(BROKEN))
    assert what == "cannot be used: command: expected a text, found a number"
