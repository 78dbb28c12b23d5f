"""Servers that keep a state which their callers must not share, and how a command line tells them (n04).

Pure. A browser, a shell or a train of thought belongs to one agent: with two in it, the second finds
what the first has left there. `instance` in a definition says otherwise, either way. What is not
recognised is shared, as servers are by default.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

Keeps = Literal["browser", "shell", "thinking"]


class Known(NamedTuple):
    """One row of the shipped table. Names as `_normal` spells them."""

    keeps: Keeps
    package: str
    """At npm or PyPI."""
    programs: tuple[str, ...] = ()
    """Commands that it installs, where one has another name than the package."""
    images: tuple[str, ...] = ()
    """Container images that run it."""


#: Servers that drive the user's own, only browser or terminal (@browsermcp/mcp, tmux-mcp) are not here: what
#: they keep is one thing, however many instances there are. Nor are those that start anew for every command.
STATEFUL: tuple[Known, ...] = (
    Known(
        "browser",
        "@playwright/mcp",
        ("playwright-mcp", "mcp-server-playwright"),
        ("mcr.microsoft.com/playwright/mcp", "mcp/playwright"),
    ),
    Known("browser", "chrome-devtools-mcp"),
    Known("browser", "@modelcontextprotocol/server-puppeteer", ("mcp-server-puppeteer",), ("mcp/puppeteer",)),
    Known("browser", "puppeteer-mcp-server"),
    Known("browser", "@executeautomation/playwright-mcp-server", ("playwright-mcp-server",)),
    Known("browser", "@automatalabs/mcp-server-playwright"),
    Known("browser", "@cloudflare/playwright-mcp"),
    Known("browser", "@tontoko/fast-playwright-mcp", ("fast-playwright-mcp",)),
    Known("browser", "@browserbasehq/mcp-server-browserbase", ("mcp-server-browserbase",)),
    Known("browser", "@agent-infra/mcp-server-browser", ("mcp-server-browser",)),
    Known("browser", "@angiejones/mcp-selenium", ("mcp-selenium",)),
    Known("browser", "selenium-mcp-server"),
    Known("browser", "mcp-server-browser-use"),
    Known("browser", "browser-use-mcp-server"),
    Known("shell", "@wonderwhy-er/desktop-commander", ("desktop-commander",), ("mcp/desktop-commander",)),
    Known("shell", "terminal-controller", ("terminal-controller-mcp",)),
    Known("shell", "terminal-control-mcp"),
    Known("shell", "interactive-terminal-mcp"),
    Known("shell", "mcp-python-repl"),
    Known("shell", "mcp-repl"),
    Known(
        "thinking",
        "@modelcontextprotocol/server-sequential-thinking",
        ("mcp-server-sequential-thinking",),
        ("mcp/sequentialthinking",),
    ),
    Known("thinking", "mcp-sequentialthinking-tools"),
    Known("thinking", "sequential-thinking-mcp"),
    Known("thinking", "mcp-sequential-thinking"),
    Known("thinking", "mcp-server-mas-sequential-thinking"),
)

_PACKAGES = {known.package: known for known in STATEFUL}
_PROGRAMS = {
    **{known.package: known for known in STATEFUL if "/" not in known.package},
    **{program: known for known in STATEFUL for program in known.programs},
}
_IMAGES = {image: known for known in STATEFUL for image in known.images}


def stateful(command: str, args: Sequence[str]) -> Known | None:
    """The row of the server that a command line starts; None for all others.

    Looked at is what runs, by its launcher or its path, never what it is told in its own arguments.
    """
    line = [command, *args]
    for _ in range(_DEEPEST):
        head, *rest = line
        name = _file_name(head)
        found = _by_path(head) or _PROGRAMS.get(_normal(name))
        if found is not None:
            return found
        if name in ("docker", "podman", "nerdctl"):
            return _by_image(rest)
        if name == "env":
            line = [word for index, word in enumerate(rest) if not _is_setting(rest[: index + 1])]
        elif name in _FETCHERS:
            words = _words(rest, _FETCHERS[name])
            packages = [word for is_package, word in words if is_package]
            for package in packages:
                if (found := _by_package(package)) is not None:
                    return found
            line = [word for is_package, word in words if not is_package]
            if line and not packages and (found := _by_package(line[0])) is not None:
                return found
        elif name in ("node", "nodejs", "tsx", "deno") or re.fullmatch(r"python[0-9.]*", name):
            return _by_script(rest)
        else:
            return None
        if not line:
            return None
    return None


#: Launchers may stand before launchers: `env X=1 uv tool run --from ...`.
_DEEPEST = 4


class _Fetcher(NamedTuple):
    """A program that fetches a package and runs it."""

    verbs: tuple[str, ...]
    """Words of its own before the package; with some, one of them must be there."""
    packages: tuple[str, ...]
    """Options that name the package, where the word after them is a command out of it."""
    valued: tuple[str, ...]
    """Other options that take the next word."""


_NPM = ("--registry", "--cache", "--prefix", "--userconfig", "--loglevel", "-w", "--workspace")
_UV = (
    *("--with", "-w", "--with-editable", "--with-requirements", "--python", "-p", "--extra", "--group"),
    *("--index", "--index-url", "-i", "--default-index", "--extra-index-url", "--directory", "--project"),
    *("--env-file", "--cache-dir", "-c", "--constraints", "--refresh-package", "--exclude-newer"),
)

_FETCHERS: dict[str, _Fetcher] = {
    "npx": _Fetcher((), ("-p", "--package"), _NPM),
    "bunx": _Fetcher((), ("-p", "--package"), _NPM),
    "pnpx": _Fetcher((), ("-p", "--package"), _NPM),
    "npm": _Fetcher(("exec", "x"), ("-p", "--package"), _NPM),
    "pnpm": _Fetcher(("dlx", "exec"), ("--package",), (*_NPM, "-C", "--dir")),
    "yarn": _Fetcher(("dlx", "exec"), ("-p", "--package"), ("--cwd",)),
    "bun": _Fetcher(("x", "run"), ("-p", "--package"), ("--cwd",)),
    "uvx": _Fetcher((), ("--from",), _UV),
    "uv": _Fetcher(("tool", "run"), ("--from",), _UV),
    "pipx": _Fetcher(("run",), ("--spec",), ("--python", "--index-url", "-i", "--pip-args", "--with")),
}


def _words(args: Sequence[str], fetcher: _Fetcher) -> list[tuple[bool, str]]:
    """(whether it names the package, word) of everything that matters, the command line last."""
    found: list[tuple[bool, str]] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if word == "--":
            return found + [(False, each) for each in rest]
        if option in fetcher.packages and (equals or rest):
            found.append((True, value if equals else rest.pop(0)))
        elif option in fetcher.valued and not equals and rest:
            rest.pop(0)
        elif not word.startswith("-") and word not in fetcher.verbs:
            return found + [(False, each) for each in (word, *rest)]
    return found


def _by_script(args: Sequence[str]) -> Known | None:
    """Of an interpreter: the module or file that it runs."""
    rest = iter(args)
    for word in rest:
        if word == "-m":
            module = next(rest, "").partition(".")[0]
            return _PACKAGES.get(_normal(module)) or _PROGRAMS.get(_normal(module))
        if word == "run" or word.startswith("-"):
            continue
        return _by_path(word) or _by_package(word)
    return None


def _by_path(file: str) -> Known | None:
    """A file in an installed package, or a program by its name."""
    _, inside, rest = file.rpartition("/node_modules/")
    if inside:
        parts = rest.split("/")
        package = "/".join(parts[: 2 if rest.startswith("@") else 1])
        if (found := _PACKAGES.get(_normal(package))) is not None:
            return found
    return _PROGRAMS.get(_normal(_file_name(file))) if "/" in file else None


def _by_package(spec: str) -> Known | None:
    """A package with or without version, tag or extras: `@a/b@1`, `a==1`, `a[x]`, `npm:a`."""
    match = _SPEC.match(spec.removeprefix("npm:"))
    return _PACKAGES.get(_normal(match[0])) if match else None


_SPEC = re.compile(r"(?:@[^/@\s]+/)?[^/@\s\[=<>~!;]+(?=$|[@\s\[=<>~!;])")


def _by_image(args: Sequence[str]) -> Known | None:
    """Which of the words is the image depends on a hundred options: an image is known by its name alone."""
    for word in args:
        image = word.partition("@")[0].removeprefix("docker.io/")
        folder, slash, name = image.rpartition("/")
        if (found := _IMAGES.get(folder + slash + name.partition(":")[0])) is not None:
            return found
    return None


def _is_setting(words: Sequence[str]) -> bool:
    """Whether the last of `env`'s words still belongs to itself."""
    return all(word.startswith("-") or "=" in word for word in words)


def _file_name(path: str) -> str:
    return re.sub(r"\.(?:js|mjs|cjs|py|cmd|exe)\Z", "", path.rpartition("/")[2])


def _normal(name: str) -> str:
    """As PyPI compares names; npm's are lower-case anyway."""
    return re.sub(r"[-_.]+", "-", name).lower()
