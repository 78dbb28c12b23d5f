"""The project as a whole: what its scripts, units and files must stay true to."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mcpctl
import mcpd
from mcpctl.commands import MODULES

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = [".ci/run", "packaging/test.sh", "packaging/try.sh", "tests/servers/install.sh"]
UNITS = ["mcpd.service", "mcpd.socket", "mcpd-agent.socket"]
# Written in two halves, so that this file does not contain what it looks for.
FORBIDDEN = {
    "a folder of some machine": re.compile(r"(?<![\w.}~/<])/(?:work|root)" + r"\b"),
    "the host of a package registry": re.compile(
        r"registry\.npm" + r"js|pypi\." + r"org|files\.python" + r"hosted|deb\.debian" + r"\.org"
    ),
}


def tracked() -> list[Path]:
    """Every file that belongs to the project."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listing.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_can_be_run(script: str) -> None:
    path = ROOT / script
    assert os.access(path, os.X_OK)
    subprocess.run(["bash", "-n", path], check=True)


def test_sourced_part_of_the_scripts_parses() -> None:
    subprocess.run(["bash", "-n", ROOT / "packaging/setup.sh"], check=True)


def test_both_packages_have_one_version() -> None:
    assert mcpctl.__version__ == mcpd.__version__


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_no_tracked_file_names(kind: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if FORBIDDEN[kind].search(line)
    ]
    assert found == []


def test_lock_of_the_npm_servers_names_no_download_address() -> None:
    assert '"resolved"' not in (ROOT / "tests/servers/package-lock.json").read_text(encoding="utf-8")


def test_units_are_accepted_by_systemd(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze here")
    tmp_path.chmod(0o700)
    done = subprocess.run(
        [analyze, "--user", "verify", *(ROOT / "systemd" / unit for unit in UNITS)],
        env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    # A word on stderr counts: systemd accepts units with directives that it does not know.
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_readme_puts_units_with_the_python_of_this_folder_in_place(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```sh\n([^`]*systemctl --user enable[^`]*)^```$", readme(), re.MULTILINE)
    script = f"set -e\nsystemctl() {{ :; }}\n{block}"
    subprocess.run(["sh", "-c", script], cwd=ROOT, env=os.environ | {"HOME": str(tmp_path)}, check=True)
    installed = tmp_path / ".config/systemd/user"
    assert sorted(unit.name for unit in installed.iterdir()) == sorted(UNITS)
    service = (installed / "mcpd.service").read_text(encoding="utf-8")
    commands = re.findall(r"^Exec\w+=(\S+) (.*)$", service, re.MULTILINE)
    python = f"{ROOT}/.venv/bin/python"
    assert commands == [(python, "-I -m mcpd run"), (python, "-I -m mcpctl reload")]


def test_mcpctl_loads_nothing_heavy() -> None:
    """Start-up time: trio alone costs more than all of mcpctl."""
    program = "import sys, mcpctl.__main__; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    heavy = {"ahocorasick_rs", "asyncio", "httpx", "keyring", "mcpd", "msgspec", "systemd", "tomli_w", "trio"}
    assert heavy & set(done.stdout.split()) == set()


def test_console_scripts_lead_to_the_modules_of_the_same_name() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert scripts == {"mcpd": "mcpd.__main__:main", "mcpctl": "mcpctl.__main__:main"}


def test_readme_names_files_that_exist() -> None:
    named = re.findall(
        r"(?:`|^ {4})((?:packaging|systemd|tests|mcpd|mcpctl)/[\w./-]*)", readme(), re.MULTILINE
    )
    assert "packaging/try.sh" in named
    assert "packaging/test.sh" in named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_readme_has_the_layers_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]
    layers = [set(re.findall(r"\w+", layer)) for layer in contract["layers"]]
    there = {
        path.stem
        for path in (ROOT / "mcpd").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    checked = [found for layer in layers if (found := layer & (there - {"__main__"}))]
    (shown,) = re.findall(r"^ {4}daemon > .*\n(?: {4}> .*\n)*", readme(), re.MULTILINE)
    assert [set(re.findall(r"\w+", layer)) for layer in shown.split(">")] == checked


@pytest.mark.parametrize("package", ["mcpd", "mcpctl"])
def test_messages_name_verbs_that_mcpctl_has(package: str) -> None:
    """A hint is a next step: it has to be one."""
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        prose = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        for each in ast.walk(tree):
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in prose:
                verbs = set(re.findall(r"\bmcpctl (?!asks\b)([a-z][a-z-]*)", each.value))
                found += [
                    f"{path.relative_to(ROOT)}:{each.lineno}: {verb}" for verb in verbs - MODULES.keys()
                ]
    assert found == []


def test_readme_shows_verbs_that_mcpctl_has() -> None:
    shown = set(re.findall(r"^(?:\$ )?mcpctl(?: --?[\w-]+)* ([a-z][\w-]*)", readme(), re.MULTILINE))
    assert shown
    for verb in sorted(shown):
        done = subprocess.run(
            [sys.executable, "-I", "-m", "mcpctl", verb, "--help"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"mcpctl {verb}: {done.stderr}"
