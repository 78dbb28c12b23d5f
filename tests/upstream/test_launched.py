"""What launchers have started, by what they leave on the disk (n09)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpd.config.spec import Server
from mcpd.upstream import launched
from tests.upstream.packages import environment, npx_cache

NPX = Server(name="s", source="test", command="/usr/bin/npx", args=("-y", "files"))
UVX = Server(name="s", source="test", command="uvx", args=("files",))


def npx(folder: Path) -> list[str]:
    return ["node", f"{folder}/node_modules/.bin/files", "--root", "/"]


def digest(server: Server, *argvs: list[str]) -> str:
    found = launched.find(server, argvs, {})
    assert found is not None
    # What is found is found there again.
    assert launched.again(server, found.place, {}) == found
    return found.digest


def test_of_npx_the_package_that_was_asked_for_counts(tmp_path: Path) -> None:
    folder = npx_cache(tmp_path, "1.0.0")
    shell = ["sh", "-c", "files --root /"]
    first = launched.find(NPX, [["npm exec files"], shell, npx(folder)], {})
    assert first is not None
    assert (first.place, first.words) == (("npx", str(folder)), "files 1.0.0")
    # A dependency has got a new version: that happens every week.
    npx_cache(tmp_path, "1.0.0", left_pad="9.9.9")
    assert digest(NPX, npx(folder)) == first.digest
    for other in ({"version": "1.0.1"}, {"version": "1.0.0", "integrity": "sha512-other"}):
        npx_cache(tmp_path, **other)
        assert digest(NPX, npx(folder)) != first.digest
    # The same in another folder is the same.
    assert digest(NPX, npx(npx_cache(tmp_path / "elsewhere", "1.0.0"))) == first.digest


def test_what_a_package_says_of_itself_is_no_command_for_a_terminal(tmp_path: Path) -> None:
    found = launched.find(NPX, [npx(npx_cache(tmp_path, "1\x1b[2J\n\u202e"))], {})
    assert found is not None
    assert found.words == "files 1?[2J??"


def test_the_lock_that_npm_keeps_among_the_modules_will_do(tmp_path: Path) -> None:
    folder = npx_cache(tmp_path, "1.0.0")
    first = digest(NPX, npx(folder))
    (folder / "package-lock.json").rename(folder / "node_modules" / ".package-lock.json")
    assert digest(NPX, npx(folder)) == first


def test_of_an_environment_the_distribution_with_the_script_counts(tmp_path: Path) -> None:
    folder = environment(tmp_path / "a", "1.0.0")
    argv = [f"{folder}/bin/python", f"{folder}/bin/files"]
    first = launched.find(UVX, [["uv", "tool", "uvx", "files"], argv], {})
    assert first is not None
    assert (first.place, first.words) == (("python", str(folder), "files"), "files 1.0.0")
    # Environments are made anew at any time, with other paths in their scripts and compiled files.
    again = environment(tmp_path / "b", "1.0.0", depends="9.9.9", installer="pip")
    assert digest(UVX, [f"{again}/bin/files"]) == first.digest
    for other in ({"version": "1.0.1"}, {"version": "1.0.0", "code": "sha256=evil"}):
        changed = environment(tmp_path / "c", **other)
        assert digest(UVX, [f"{changed}/bin/python", f"{changed}/bin/files"]) != first.digest
    # A script of nobody's: all that is there.
    odd = launched.find(UVX, [[f"{folder}/bin/python", "-m", "files"]], {})
    assert odd is not None
    assert odd.words == "depends 1.0.0, files 1.0.0"


@pytest.mark.parametrize(
    "argvs",
    [
        [],
        [[]],
        [["node", "server.js"]],
        [["/usr/bin/python3", "/srv/x.py"]],
        [["/a/_npx/none/x"]],
        [["/_npx/"]],
    ],
)
def test_what_cannot_be_told_is_not(argvs: list[list[str]]) -> None:
    assert launched.find(NPX, argvs, {}) is None


@pytest.mark.parametrize(
    "text", ["", "[]", '"x"', "{", '{"dependencies": []}', "[" * 10_000, '{"packages": 1}']
)
def test_damaged_files_tell_nothing(tmp_path: Path, text: str) -> None:
    folder = npx_cache(tmp_path, "1.0.0")
    for name in ("package.json", "package-lock.json"):
        whole = (folder / name).read_text()
        (folder / name).write_text(text)
        assert launched.find(NPX, [npx(folder)], {}) is None
        (folder / name).write_text(whole)
    (folder / "package.json").write_text(json.dumps({"dependencies": {"other": "1"}}))
    assert launched.find(NPX, [npx(folder)], {}) is None
    for place in ((), ("npx",), ("odd", "x"), ("npx", "nul\0byte"), ("python", "/no/such", "x")):
        assert launched.again(NPX, place, {}) is None


@pytest.mark.parametrize(
    ("args", "image"),
    [
        (["run", "-i", "--rm", "mcp/time"], "mcp/time"),
        (
            ["container", "run", "-it", "-e", "TOKEN", "--mount", "a=b", "mcp/time:1", "run", "x"],
            "mcp/time:1",
        ),
        (["run", "-v", "/a:/b", "-v/c:/d", "--network=none", "--name", "n", "-ti", "i"], "i"),
        (["run", "--init", "--read-only", "-itp", "1:2", "i@sha256:0"], "i@sha256:0"),
        (["--context", "x", "run", "i"], ""),
        (["exec", "i"], ""),
        (["run", "-e"], ""),
        ([], ""),
    ],
)
def test_the_image_of_a_docker_command(args: list[str], image: str) -> None:
    assert launched.image_of(args) == image


def test_an_image_is_asked_for_by_the_name_it_has(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text(
        '#!/bin/sh\n[ "$5" = time ] && [ "$1 $2 $3 $4" = "image inspect --format {{.Id}}" ] && cat "$IDS"\n'
    )
    docker.chmod(0o755)
    ids = tmp_path / "ids"
    ids.write_text("sha256:1\n")
    server = Server(name="s", source="t", command=str(docker), args=("run", "-i", "time"))
    env: dict[str, Any] = {"PATH": "/usr/bin:/bin", "IDS": str(ids)}
    first = launched.find(server, [], env)
    assert first is not None
    assert (first.place, first.words) == (("image", "time"), "time sha256:1")
    ids.write_text("sha256:2\n")
    second = launched.again(server, first.place, env)
    assert second is not None
    assert second.digest != first.digest
    ids.unlink()
    assert launched.again(server, first.place, env) is None
    assert launched.again(server, ("image", "other"), env) is None


def test_a_launcher_may_lie_in_an_environment_itself(tmp_path: Path) -> None:
    own = environment(tmp_path / "own", "0.1.0")
    folder = environment(tmp_path / "made", "1.0.0")
    argvs = [
        [f"{own}/bin/uv", "tool", "uvx"],
        [f"{own}/bin/python", f"{own}/bin/pipx"],
        [f"{folder}/bin/files"],
    ]
    found = launched.find(UVX, argvs, {})
    assert found is not None
    assert found.place == ("python", str(folder), "files")
    node = npx_cache(tmp_path, "1.0.0")
    found = launched.find(NPX, [[f"{own}/bin/python", f"{node}/node_modules/.bin/files"]], {})
    assert found is not None
    assert found.place == ("npx", str(node))


def test_only_launchers_are_looked_at() -> None:
    known = ("npx", "/opt/bin/uvx", "pipx", "docker", "podman", "uv", "npm")
    assert all(launched.is_known(Server(name="s", source="t", command=command)) for command in known)
    assert not any(
        launched.is_known(Server(name="s", source="t", command=command)) for command in ("node", "python", "")
    )
