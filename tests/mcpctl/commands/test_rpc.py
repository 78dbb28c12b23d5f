"""Any method, as it is."""

from __future__ import annotations

from pathlib import Path

from tests.mcpctl.harness import Control, Raw, Refusal, run


def test_rpc(daemon: Control, folder: Path) -> None:
    daemon.answers["a.b"] = Raw('{"n": 1.00}')
    assert run(folder, "rpc", "a.b", '{"x": 2.00}').stdout == '{"n": 1.00}\n'
    assert daemon.lines[-1].endswith(b'"params":{"x": 2.00}}\n')
    assert run(folder, "rpc", "a.b", "-", input='{"y":\n1}').returncode == 0
    assert daemon.params("a.b") == {"y": 1}
    assert run(folder, "rpc", "a.b").returncode == 0
    assert daemon.params("a.b") == {}


def test_an_error(daemon: Control, folder: Path) -> None:
    daemon.answers["a.b"] = Refusal("refused")
    done = run(folder, "rpc", "a.b")
    assert (done.returncode, done.stdout) == (4, "")


def test_the_list_of_methods(daemon: Control, folder: Path) -> None:
    method = {"name": "a.b", "access": "widen", "doc": "Does it.", "params": {}, "result": {}, "errors": []}
    daemon.answers["daemon.describe"] = {"api": [1, 1], "methods": [method], "components": {}, "errors": []}
    assert run(folder, "rpc").stdout.splitlines()[1].split() == ["a.b", "widen", "Does", "it."]
