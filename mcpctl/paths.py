"""Where the sockets are. The daemon finds them by the same rules."""

from __future__ import annotations

import os

from mcpctl.errors import CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: The longest path of a Unix socket, without its closing NUL (unix(7): sun_path has 108 bytes).
LONGEST = 107

CONTROL = "control.sock"


class Place:
    """One daemon's sockets. `moved_by` names the option or variable that chose them, if any did.

    `explicit` is set where a socket was named, not a folder: nothing is started for such a place.
    """

    __slots__ = ("control", "explicit", "folder", "moved_by")

    def __init__(self, folder: str, moved_by: str = "", control: str = "") -> None:
        self.folder = folder
        self.moved_by = moved_by
        self.explicit = bool(control)
        self.control = control or f"{folder}/{CONTROL}"

    def agent(self, name: str) -> str:
        """The socket of one agent. Raises CallError where `name` cannot be an agent's (c05)."""
        if not name or name[0] in "._-" or not set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-"):
            raise CallError("usage", f'cannot use "{name}" as the name of an agent')
        if self.explicit and os.path.basename(self.control) != CONTROL:
            return self.control
        return f"{self.folder}/agents/{name}/mcp.sock"


def find(socket: str | None, environ: Mapping[str, str], uid: int) -> Place:
    """The place that `--socket`, the environment or the user's defaults name, in this order.

    Raises CallError `usage` for a relative MCPD_RUNTIME_DIR, which the daemon would not take either.
    """
    named = "--socket" if socket else "MCPD_SOCKET"
    path = socket or environ.get("MCPD_SOCKET")
    if path:
        path = os.path.abspath(path)
        return Place(os.path.dirname(path), named, control=path)
    own = environ.get("MCPD_RUNTIME_DIR", "")
    if own:
        if not own.startswith("/"):
            raise CallError("usage", f'cannot use MCPD_RUNTIME_DIR "{own}": it is not an absolute path')
        return Place(own.rstrip("/"), "MCPD_RUNTIME_DIR")
    usual = f"/run/user/{uid}"
    session = absolute(environ, "XDG_RUNTIME_DIR", "")
    if session:
        return Place(f"{session}/mcpd", "" if session == usual else "XDG_RUNTIME_DIR")
    if private(usual, uid):
        return Place(f"{usual}/mcpd")
    return Place(f"{state_folder(environ)}/run")


def state_folder(environ: Mapping[str, str]) -> str:
    """Where the daemon keeps its log and databases."""
    return (absolute(environ, "XDG_STATE_HOME", "") or f"{home(environ)}/.local/state") + "/mcpd"


def config_folder(environ: Mapping[str, str]) -> str:
    return (absolute(environ, "XDG_CONFIG_HOME", "") or f"{home(environ)}/.config") + "/mcpd"


def home(environ: Mapping[str, str]) -> str:
    """As the daemon sees it: where the environment has none, the account's. Raises CallError `usage`."""
    said = environ.get("HOME")
    if said:
        return said
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        message = f"cannot find a home folder: HOME is not set, and no account has the number {os.getuid()}"
        raise CallError("usage", message) from None


def absolute(environ: Mapping[str, str], name: str, default: str) -> str:
    """XDG base directory specification: a relative path is invalid and ignored."""
    value = environ.get(name, "")
    return value.rstrip("/") if value.startswith("/") else default


def private(folder: str, uid: int) -> bool:
    """Whether `folder` is a folder, not a link, belongs to `uid` and nobody else can enter it."""
    try:
        found = os.stat(folder, follow_symlinks=False)
    except OSError:
        return False
    return found.st_uid == uid and found.st_mode & 0o170077 == 0o040000
