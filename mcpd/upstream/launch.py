"""What a server process is started with: the command's file, its environment, its folder (a32, b03).

Only lookups of files happen here; nothing is started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from mcpd.config import executable
from mcpd.config.executable import NoCommand
from mcpd.config.spec import Server
from mcpd.processes import MARKER
from mcpd.transport.base import ConnectFailed, Launch

#: What a child sees of the daemon's environment; the rest is its definition's (3.1, a32).
INHERITED = ("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")

#: Programs that may download what they run, so that a first start takes long (c12).
LAUNCHERS = frozenset({"npx", "uvx", "uv", "pipx", "bunx", "pnpm", "yarn", "docker", "podman", "deno"})


def plan(server: Server, environ: Mapping[str, str], marker: str) -> Launch:
    """How this definition is started: by the file that its command was found as when the files were read,
    or, where there was none then, by what is found now (n24).

    Raises ConnectFailed when there is none.
    """
    env = environment(server, environ, marker)
    cwd = executable.folder(server, environ)
    if not os.path.isdir(cwd):
        raise ConnectFailed("failed", f'cannot enter the folder "{cwd}": no such folder', lasting=True)
    try:
        file = executable.still(server) if server.executable else executable.find(server, environ)
    except NoCommand as e:
        raise ConnectFailed(e.reason, e.message, lasting=True) from None
    return Launch((file, *server.args), env, cwd)


def environment(server: Server, environ: Mapping[str, str], marker: str) -> dict[str, str]:
    """The child's whole environment: a short allow-list, its own variables, the marker."""
    env = {name: environ[name] for name in INHERITED if name in environ}
    env.update((name, value) for name, value in environ.items() if name.startswith("LC_"))
    env = {name: value for name, value in env.items() if not value.startswith("()")}
    env.update((name, value) for name, value in server.env.items() if not name.startswith("MCPD_"))
    env["PATH"] = executable.search_path(server, environ)
    env[MARKER] = marker
    return env


def is_launcher(server: Server) -> bool:
    return os.path.basename(server.command) in LAUNCHERS
