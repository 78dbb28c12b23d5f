"""Which file a server's command is: looked for when the files are read, and started as it was found then.

A file that comes to lie before it in PATH later is a change that waits like one of the definition (a03, n24).
Only looks at files; nothing is started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from msgspec.structs import replace

from mcpd.config.spec import Server

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


class NoCommand(Exception):
    """The command of a server is not there, or cannot be started."""

    def __init__(self, reason: Literal["command_not_found", "not_executable"], message: str) -> None:
        super().__init__(message)
        self.reason: Literal["command_not_found", "not_executable"] = reason
        self.message = message


def located(server: Server, environ: Mapping[str, str]) -> Server:
    """The server with the file that its command is now; without one where there is none."""
    if not server.command:
        return server
    try:
        return replace(server, executable=find(server, environ))
    except NoCommand:
        return server


def find(server: Server, environ: Mapping[str, str]) -> str:
    """The file that the command names: below `path`, else PATH of the definition, else the daemon's.

    Raises NoCommand.
    """
    command, path = server.command, search_path(server, environ)
    if "/" in command:
        file = os.path.join(folder(server, environ), command)
        if not os.path.exists(file):
            raise NoCommand("command_not_found", f'command "{command}" not found: no such file')
        _check(command, file)
        return file
    shut = None
    for each in path.split(":"):
        file = os.path.join(each or ".", command)
        if each and os.path.isfile(file):
            if os.access(file, os.X_OK):
                return file
            shut = shut or file
    if shut:
        _check(command, shut)
    raise NoCommand(
        "command_not_found", f'command "{command}" not found in PATH "{path}"; set `path` or `command`'
    )


def still(server: Server) -> str:
    """The file that was found for the command. Raises NoCommand where it has gone since."""
    if not os.path.exists(server.executable):
        raise NoCommand(
            "command_not_found",
            f'command "{server.command}" was found as "{server.executable}", which is there no more; '
            "mcpctl reload looks for it again",
        )
    _check(server.command, server.executable)
    return server.executable


def search_path(server: Server, environ: Mapping[str, str]) -> str:
    """PATH as the server's process has it (b03)."""
    usual = environ.get("PATH", DEFAULT_PATH)
    path = server.env.get("PATH", DEFAULT_PATH if usual.startswith("()") else usual)
    return f"{server.path}:{path}" if server.path else path


def folder(server: Server, environ: Mapping[str, str]) -> str:
    """Where the server's process starts."""
    return server.cwd or environ.get("HOME", "/")


def _check(command: str, file: str) -> None:
    if os.path.isdir(file) or not os.access(file, os.X_OK):
        raise NoCommand("not_executable", f'command "{command}" is not executable')
