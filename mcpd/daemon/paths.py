"""Where everything lies: folders and sockets by the environment (reference: daemon, section 1).

Looking is apart from making: `resolve` only names, `make_private` creates and checks.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mcpd.config.spec import SERVERS_DIR
from mcpd.errors import Failure
from mcpd.files import make_private_folder

#: The longest path that AF_UNIX takes, in bytes.
SOCKET_PATH_LIMIT = 107


class Paths(msgspec.Struct, frozen=True):
    """Absolute paths; none of them needs to exist."""

    runtime: str
    config: str
    state: str
    cache: str

    @property
    def lock(self) -> str:
        return f"{self.runtime}/lock"

    @property
    def state_lock(self) -> str:
        """Not called `lock`: both folders may be the same one."""
        return f"{self.state}/state.lock"

    @property
    def control_socket(self) -> str:
        return f"{self.runtime}/control.sock"

    @property
    def agents(self) -> str:
        """The folder that holds one folder for each agent."""
        return f"{self.runtime}/agents"

    def agent_folder(self, name: str) -> str:
        return f"{self.agents}/{name}"

    def agent_socket(self, name: str) -> str:
        return f"{self.agents}/{name}/mcp.sock"

    @property
    def servers_dir(self) -> str:
        """Where server files lie unless config.toml says otherwise."""
        return f"{self.config}/{SERVERS_DIR}"

    @property
    def state_db(self) -> str:
        return f"{self.state}/state.db"

    @property
    def journal_db(self) -> str:
        return f"{self.state}/journal.db"

    @property
    def log_file(self) -> str:
        return f"{self.state}/mcpd.log"

    @property
    def runtime_id(self) -> str:
        """Names the runtime folder in the marker of children; no dot in it."""
        return hashlib.sha256(os.fsencode(os.path.realpath(self.runtime))).hexdigest()[:12]


def resolve(environ: Mapping[str, str], uid: int) -> Paths:
    """The folders that this environment means. Raises Failure for a relative MCPD_RUNTIME_DIR."""
    home = _home(environ, uid)
    state = _base(environ, "XDG_STATE_HOME", f"{home}/.local/state")
    return Paths(
        runtime=_runtime(environ, uid, state),
        config=f"{_base(environ, 'XDG_CONFIG_HOME', f'{home}/.config')}/mcpd",
        state=f"{state}/mcpd",
        cache=f"{_base(environ, 'XDG_CACHE_HOME', f'{home}/.cache')}/mcpd",
    )


def settle() -> Paths:
    """The folders of this process, with those that only mcpd writes made. Raises Failure.

    Its home is the one of its servers too, where nothing has said which that is.
    """
    uid = os.getuid()
    paths = resolve(os.environ, uid)
    os.environ["HOME"] = _home(os.environ, uid)
    make_private(paths.runtime, uid)
    try:
        make_private_folder(Path(paths.state))
    except OSError as e:
        raise Failure("refused", f'cannot create folder "{paths.state}": {str(e.strerror).lower()}') from None
    return paths


def _home(environ: Mapping[str, str], uid: int) -> str:
    if environ.get("HOME"):
        return environ["HOME"]
    import pwd  # only for a service without HOME

    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        message = f"cannot find a home folder: HOME is not set, and no account has the number {uid}"
        raise Failure("refused", message) from None


def _base(environ: Mapping[str, str], name: str, default: str) -> str:
    """XDG base directory specification: a relative path is invalid and ignored."""
    value = environ.get(name, "")
    return value.rstrip("/") if value.startswith("/") else default


def _runtime(environ: Mapping[str, str], uid: int, state: str) -> str:
    own = environ.get("MCPD_RUNTIME_DIR", "")
    if own:
        if not own.startswith("/"):
            raise Failure("refused", f'cannot use MCPD_RUNTIME_DIR "{own}": it is not an absolute path')
        return own.rstrip("/")
    session = _base(environ, "XDG_RUNTIME_DIR", "")
    if session:
        return f"{session}/mcpd"
    usual = f"/run/user/{uid}"
    return f"{state}/mcpd/run" if _problem(usual, uid) else f"{usual}/mcpd"


def _problem(folder: str, uid: int) -> str:
    """Why a folder is not private to the user; empty when it is."""
    try:
        found = os.stat(folder, follow_symlinks=False)
    except OSError as e:
        return str(e.strerror).lower()
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a folder"
    if found.st_uid != uid:
        return f"it belongs to user {found.st_uid}"
    if found.st_mode & 0o077:
        return f"it is open to others (mode {stat.S_IMODE(found.st_mode):04o})"
    return ""


def make_private(folder: str, uid: int) -> None:
    """Create the folder with mode 0700 whatever the umask, with its parents; check one that is there.

    Raises Failure when it cannot be made, belongs to another user or is open to others: what lies in it
    then may not be ours.
    """
    try:
        parent = os.path.dirname(folder)
        if not os.path.isdir(parent):
            make_private(parent, uid)
        os.mkdir(folder, 0o700)
        os.chmod(folder, 0o700)
    except FileExistsError:
        pass
    except OSError as e:
        raise Failure("refused", f'cannot create folder "{folder}": {str(e.strerror).lower()}') from None
    if problem := _problem(folder, uid):
        hint = f"chmod 700 '{folder}'" if "open to others" in problem else ""
        raise Failure("refused", f'cannot use folder "{folder}": {problem}', hint=hint)


def check_socket_path(path: str) -> None:
    """Raises Failure when AF_UNIX cannot take the path."""
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_LIMIT:
        raise Failure(
            "refused",
            f'cannot use socket path "{path}": {length} bytes, at most {SOCKET_PATH_LIMIT} are possible',
            hint="set MCPD_RUNTIME_DIR to a shorter folder",
        )
