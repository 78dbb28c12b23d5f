"""Which command lines start a server that keeps a state of its caller's (n04)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.config import instances
from mcpd.config.instances import STATEFUL, Known, stateful


@pytest.mark.parametrize("known", STATEFUL, ids=lambda known: known.package)
def test_every_row_is_recognised_however_it_is_started(known: Known) -> None:
    lines = [
        ["npx", "-y", f"{known.package}@latest", "--headless"],
        ["npx", "-y", "-p", known.package, "anything"],
        ["uvx", f"{known.package}==1.2.3"],
        ["uvx", "--from", f"{known.package}[cli]", "anything"],
        ["node", f"/home/me/lib/node_modules/{known.package}/dist/index.js"],
        *([program] for program in known.programs),
        *([f"/opt/x/node_modules/.bin/{program}", "--port", "1"] for program in known.programs),
        *(["docker", "run", "-i", "--rm", "--init", f"{image}:1.2"] for image in known.images),
    ]
    if "/" not in known.package:
        lines += [[known.package], ["python3", "-m", known.package.replace("-", "_")]]
    for command, *args in lines:
        assert stateful(command, args) == known, (command, args)


@pytest.mark.parametrize(
    "line",
    [
        "npx @playwright/mcp",
        "/usr/local/bin/npx --yes --registry https://r.example/ @playwright/mcp@0.0.83 --isolated",
        "npx --package=@playwright/mcp -- playwright-mcp",
        "npm exec -y -- @playwright/mcp --headless",
        "npm x --prefix /tmp @playwright/mcp",
        "pnpm dlx @playwright/mcp",
        "pnpm --package=@playwright/mcp dlx mcp-server-playwright",
        "yarn dlx -p @playwright/mcp playwright-mcp",
        "bunx @playwright/mcp@latest",
        "bun x @playwright/mcp",
        "deno run -A npm:@playwright/mcp@1",
        "env -i DISPLAY=:1 npx @playwright/mcp",
        "node --enable-source-maps ./node_modules/@playwright/mcp/cli.js",
        "node_modules/.bin/mcp-server-playwright",
        "playwright-mcp",
        "docker run --rm -i mcr.microsoft.com/playwright/mcp",
        "podman run -i docker.io/mcp/playwright@sha256:12ab",
        "npx.cmd -y @playwright/mcp",
    ],
)
def test_a_browser(line: str) -> None:
    command, *args = line.split()
    found = stateful(command, args)
    assert found is not None
    assert found.package == "@playwright/mcp"


@pytest.mark.parametrize(
    "line",
    [
        "uvx mcp-python-repl",
        "uvx --python 3.12 --with numpy mcp_python_repl@latest",
        "uv tool run mcp-python-repl>=0.1",
        "uv run --with mcp-python-repl python -m mcp_python_repl.server",
        "uv --directory /srv/x run mcp-python-repl",
        "pipx run --spec mcp-python-repl==0.1.1 mcp-python-repl",
        "/srv/x/.venv/bin/mcp-python-repl --debug",
        "python3.12 -u -m mcp_python_repl",
    ],
)
def test_a_shell_of_pypi(line: str) -> None:
    command, *args = line.split()
    found = stateful(command, args)
    assert found is not None
    assert found.package == "mcp-python-repl"


@pytest.mark.parametrize(
    "line",
    [
        "npx -y @modelcontextprotocol/server-filesystem /home/me/node_modules/@playwright/mcp",
        "npx -y mcp @playwright/mcp",
        "npx",
        "npx -y",
        "npx -p",
        "npx --registry",
        "env",
        "env env env env env npx @playwright/mcp",
        "npx @playwright/mcp-extras",
        "npx @other/mcp",
        "mcp",
        "uvx mcp-server-fetch",
        "uv run server.py --with playwright-mcp",
        "node /srv/playwright/mcp/index.js",
        "docker run -i mcp/fetch playwright-mcp",
        "python -m",
        "python -c playwright",
        "git+https://example.com/playwright-mcp.git",
        "/usr/bin/true playwright-mcp",
        "npx -y @browsermcp/mcp",
    ],
)
def test_what_is_shared(line: str) -> None:
    command, *args = line.split()
    assert stateful(command, args) is None


def test_a_server_without_a_command_is_shared() -> None:
    assert stateful("", ()) is None


def test_the_tables_names_are_as_they_are_compared() -> None:
    for known in STATEFUL:
        names = (known.package, *known.programs)
        assert [instances._normal(name) for name in names] == list(names)
    assert len({known.package for known in STATEFUL}) == len(STATEFUL)


WORDS = st.sampled_from(
    [
        "npx",
        "uvx",
        "uv",
        "env",
        "--",
        "-p",
        "--from",
        "--with",
        "--package=",
        "@",
        "a==",
        "node",
        "-m",
        "/",
        "",
    ]
)


@given(st.lists(st.one_of(WORDS, st.text(max_size=8)), min_size=1))
def test_any_line_is_answered(line: list[str]) -> None:
    stateful(line[0], line[1:])
