"""Adding and removing server files (a03, b31, D1)."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.config.load import load
from mcpd.config.save import (
    add_agent,
    add_server,
    change_agent,
    remove_agent,
    remove_server,
    restore_agent,
)
from mcpd.config.spec import Agent, Policy, Server
from mcpd.errors import Failure


def failure(servers_dir: Path, name: str, fields: dict[str, Any]) -> Failure:
    with pytest.raises(Failure) as caught:
        add_server(servers_dir, name, fields)
    return caught.value


def test_what_is_added_is_loaded_again(tmp_path: Path) -> None:
    fields = {
        "command": "npx",
        "args": ("-y", 'say "hi"', "${HOME} $$ \\ ä\n"),
        "cwd": "/tmp",
        "path": "/opt/node/bin",
        "start": "eager",
        "default_policy": {"risk": "low", "approval": "never", "timeout": 120},
        "enabled": False,
    }
    path = add_server(tmp_path / "servers.d", "demo", fields)
    config = load(tmp_path, {"HOME": "/home/u", "PATH": "/no/such/folder"})
    assert config.problems == ()
    # a05: values that were given are literal.
    assert config.servers["demo"] == Server(
        name="demo",
        source=str(path),
        command="npx",
        args=("-y", 'say "hi"', "${HOME} $$ \\ ä\n"),
        cwd="/tmp",
        path="/opt/node/bin",
        start="eager",
        policy=Policy("low", "never", 120.0),
        enabled=False,
        disabled_by=str(path),
    )


def test_the_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = add_server(tmp_path / "a" / "servers.d", "demo", {"command": "x"})
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["demo.toml"]


def test_a_name_is_not_taken_twice(tmp_path: Path) -> None:
    path = add_server(tmp_path, "demo", {"command": "first"})
    before = path.read_bytes()
    assert failure(tmp_path, "demo", {"command": "second"}).kind == "name_taken"
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["demo.toml"]


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("a", {}, 'neither "command" nor "url"'),
        ("a", {"command": "x", "url": "https://h/"}, 'both "command" and "url"'),
        ("a", {"comand": "x"}, 'did you mean "command"?'),
        ("a", {"command": "x", "args": ("a\0b",)}, "NUL"),
        ("a", {"command": "x", "cwd": "relative"}, "cwd: expected an absolute folder"),
        ("a", {"command": "x", "cwd": "${HOME}"}, "cwd: expected an absolute folder"),
        ("A", {"command": "x"}, "the name"),
        ("../a", {"command": "x"}, "the name"),
        ("a__b", {"command": "x"}, "__"),
        ("", {"command": "x"}, "empty"),
    ],
)
def test_a_definition_that_cannot_be_used_is_not_written(
    tmp_path: Path, name: str, fields: dict[str, Any], message: str
) -> None:
    refused = failure(tmp_path / "servers.d", name, fields)
    assert refused.kind == "bad_definition"
    assert message in refused.message
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "servers.d").write_text("a file")
    assert failure(tmp_path / "servers.d", "demo", {"command": "x"}).kind == "not_writable"


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    # The name is taken by a folder: the last step fails.
    (tmp_path / "demo.toml").mkdir()
    assert failure(tmp_path, "demo", {"command": "x"}).kind == "name_taken"
    assert os.listdir(tmp_path) == ["demo.toml"]


def test_remove_deletes_the_file_and_names_it(tmp_path: Path) -> None:
    path = add_server(tmp_path, "demo", {"command": "x"})
    assert remove_server(tmp_path, "demo") == path
    assert os.listdir(tmp_path) == []
    for name in ("demo", "../demo", "a\0"):
        with pytest.raises(Failure) as caught:
            remove_server(tmp_path, name)
        assert caught.value.kind == "no_such_server"


@given(st.lists(st.text().filter(lambda text: "\0" not in text)))
def test_every_argument_survives(tmp_path_factory: pytest.TempPathFactory, args: list[str]) -> None:
    folder = tmp_path_factory.getbasetemp() / "args"
    add_server(folder / "servers.d", "demo", {"command": "x", "args": args})
    try:
        config = load(folder, {})
        assert config.servers["demo"].args == tuple(args)
    finally:
        remove_server(folder / "servers.d", "demo")


# Agents --------------------------------------------------------------------------------


def test_an_agent_that_is_added_is_loaded_again(tmp_path: Path) -> None:
    fields = {"allowed_tools": ("a__*", 'b__"x"'), "max_risk": "low", "open": True}
    path = add_agent(tmp_path / "agents.d", "reader", fields)
    config = load(tmp_path, {})
    assert config.problems == ()
    allowed = ("a__*", 'b__"x"')
    assert config.agents["reader"] == Agent(
        name="reader", source=str(path), allowed_tools=allowed, max_risk="low", open=True
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(Failure) as taken:
        add_agent(tmp_path / "agents.d", "reader", {})
    assert taken.value.kind == "name_taken"


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("reader", {"allowed_tools": ("notes",)}, "names no tool"),
        ("reader", {"max_risk": "none"}, "max_risk: expected"),
        ("../reader", {}, "the name has other characters"),
    ],
)
def test_an_agent_that_could_not_be_used_is_not_written(
    tmp_path: Path, name: str, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(Failure) as caught:
        add_agent(tmp_path / "agents.d", name, fields)
    assert caught.value.kind == "bad_definition"
    assert said in caught.value.message
    assert os.listdir(tmp_path) == []


def test_a_changed_agent_keeps_its_comments_its_link_and_its_mark(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles.toml", tmp_path / "coder.toml"
    before = "\ufeff# mine\r\nschema = 1\r\nunknown = 1 # kept\r\n".encode()
    real.write_bytes(before)
    link.symlink_to(real)
    assert change_agent(link, {"denied_tools": ("a__*",), "max_risk": "low"}) == before
    assert link.is_symlink()
    added = b'denied_tools = ["a__*"]\r\nmax_risk = "low"\r\n'
    assert real.read_bytes() == before + added
    restore_agent(link, before)
    assert real.read_bytes() == before
    assert link.is_symlink()


@pytest.mark.parametrize("text", [b"[table]\nx = 1\n", b"= broken", b"\xff", b"k = 1\n[denied_tools]\n"])
def test_a_file_that_cannot_be_edited_stays(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "coder.toml"
    path.write_bytes(text)
    with pytest.raises(Failure) as caught:
        change_agent(path, {"denied_tools": ("a__*",)})
    assert (caught.value.kind, caught.value.data["file"]) == ("not_writable", str(path))
    assert path.read_bytes() == text
    assert os.listdir(tmp_path) == ["coder.toml"]


def test_an_agent_is_removed_by_its_file(tmp_path: Path) -> None:
    path = add_agent(tmp_path, "reader", {})
    remove_agent(path)
    assert os.listdir(tmp_path) == []
    for act in (
        lambda: remove_agent(path),
        lambda: change_agent(path, {}),
    ):
        with pytest.raises(Failure) as caught:
            act()
        assert caught.value.kind == "not_writable"
