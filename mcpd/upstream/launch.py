"""What a server process is started with: the command's file, its environment, its folder (a32, b03).

Only lookups of files happen here; nothing is started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from mcpd.config.spec import Server
from mcpd.transport.base import ConnectFailed, Launch
from mcpd.transport.sweep import MARKER

#: What a child sees of the daemon's environment; the rest is its definition's (3.1, a32).
INHERITED = ("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")

#: Programs that may download what they run, so that a first start takes long (c12).
LAUNCHERS = frozenset({"npx", "uvx", "uv", "pipx", "bunx", "pnpm", "yarn", "docker", "podman", "deno"})

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def plan(server: Server, environ: Mapping[str, str], marker: str) -> Launch:
    """How this definition is started. Raises ConnectFailed when the command cannot be found."""
    env = environment(server, environ, marker)
    cwd = server.cwd or environ.get("HOME", "/")
    if not os.path.isdir(cwd):
        raise ConnectFailed("failed", f'cannot enter the folder "{cwd}": no such folder', lasting=True)
    return Launch((find_command(server, env["PATH"], cwd), *server.args), env, cwd)


def environment(server: Server, environ: Mapping[str, str], marker: str) -> dict[str, str]:
    """The child's whole environment: a short allow-list, its own variables, the marker."""
    env = {name: environ[name] for name in INHERITED if name in environ}
    env.update((name, value) for name, value in environ.items() if name.startswith("LC_"))
    env = {name: value for name, value in env.items() if not value.startswith("()")}
    env.setdefault("PATH", DEFAULT_PATH)
    env.update((name, value) for name, value in server.env.items() if not name.startswith("MCPD_"))
    if server.path:
        env["PATH"] = f"{server.path}:{env['PATH']}"
    env[MARKER] = marker
    return env


def find_command(server: Server, path: str, cwd: str) -> str:
    """The file that the command names: `path`, else PATH of the definition, else the daemon's."""
    command = server.command
    if "/" in command:
        file = os.path.join(cwd, command)
        if not os.path.exists(file):
            raise ConnectFailed(
                "command_not_found", f'command "{command}" not found: no such file', lasting=True
            )
        _check_executable(command, file)
        return file
    found = None
    for folder in path.split(":"):
        file = os.path.join(folder or ".", command)
        if folder and os.path.isfile(file):
            if os.access(file, os.X_OK):
                return file
            found = found or file
    if found:
        _check_executable(command, found)
    raise ConnectFailed(
        "command_not_found",
        f'command "{command}" not found in PATH "{path}"; set `path` or `command`',
        lasting=True,
    )


def _check_executable(command: str, file: str) -> None:
    if os.path.isdir(file) or not os.access(file, os.X_OK):
        raise ConnectFailed("not_executable", f'command "{command}" is not executable', lasting=True)


def is_launcher(server: Server) -> bool:
    return os.path.basename(server.command) in LAUNCHERS
