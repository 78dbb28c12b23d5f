"""Writing one server's file in `servers_dir` or one agent's in `agents.d`, and taking it away again.

config.toml is the user's alone and never written. The functions block for a few
milliseconds; call them in a thread where that matters.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from mcpd import files
from mcpd.config import edit
from mcpd.config.definition import read_server
from mcpd.config.entry import read_agent
from mcpd.config.expand import escape
from mcpd.config.fields import SCHEMA
from mcpd.config.spec import Faulty
from mcpd.errors import Failure

MAX_AGENT = 1 << 20
"""Bytes of an agent's file."""


def add_server(servers_dir: Path, name: str, fields: Mapping[str, Any]) -> Path:
    """Write NAME.toml (0600) and return its path.

    `fields`: the fields of a server as its file has them, with plain values (texts,
    lists, dicts); all are literal, a `${` among them stays one (a05).

    Raises Failure: "bad_definition" (nothing is written, also where both or neither of
    command and url are given, D1), "name_taken", "not_writable".
    """
    table = {"schema": SCHEMA, **{key: _literal(key, value) for key, value in fields.items()}}
    path = servers_dir / f"{name}.toml"
    checked = read_server(name, str(path), table, "", {})
    if isinstance(checked.server, Faulty):
        raise Failure("bad_definition", f'cannot add "{name}": {checked.server.message}', server=name)
    try:
        files.make_private_folder(servers_dir)
        files.write_whole(path, tomli_w.dumps(table).encode(), exclusive=True)
    except FileExistsError:
        raise Failure(
            "name_taken",
            f'cannot add "{name}": {path} exists',
            hint=f"choose another name, or edit the file and run mcpctl reload: {path}",
            server=name,
        ) from None
    except OSError as error:
        raise _not_writable(f'cannot add "{name}"', path, error) from error
    return path


def remove_server(servers_dir: Path, name: str) -> Path:
    """Delete NAME.toml and return the path it had.

    Raises Failure: "no_such_server" when there is no such file, "not_writable".
    """
    path = servers_dir / f"{name}.toml"
    try:
        if os.sep in name or "\0" in name:
            raise FileNotFoundError
        os.unlink(path)
        files.sync_folder(servers_dir)
    except FileNotFoundError:
        raise Failure(
            "no_such_server", f'cannot remove "{name}": there is no file {path}', server=name
        ) from None
    except OSError as error:
        raise _not_writable(f'cannot remove "{name}"', path, error) from error
    return path


# Agents --------------------------------------------------------------------------------


def add_agent(agents_dir: Path, name: str, fields: Mapping[str, Any]) -> Path:
    """Write NAME.toml (0600) with the fields of an agent as its file has them, and return its path.

    Raises Failure: "bad_definition" (nothing is written), "name_taken", "not_writable".
    """
    lists = {key: list(value) for key, value in fields.items() if isinstance(value, tuple)}
    table = {"schema": SCHEMA, **fields, **lists}
    path = agents_dir / f"{name}.toml"
    _, faults = read_agent(name, str(path), table, "")
    if faults:
        why = "; ".join(map(str, faults))
        raise Failure("bad_definition", f'cannot add agent "{name[:60]}": {why}', agent=name[:60])
    try:
        files.make_private_folder(agents_dir)
        files.write_whole(path, tomli_w.dumps(table).encode(), exclusive=True)
    except FileExistsError:
        raise Failure(
            "name_taken",
            f'cannot add agent "{name}": {path} exists',
            hint=f"edit the file and run mcpctl reload: {path}",
            agent=name,
        ) from None
    except OSError as error:
        raise _not_writable(f'cannot add agent "{name}"', path, error) from error
    return path


def change_agent(path: Path, fields: Mapping[str, str | Sequence[str]]) -> bytes:
    """Set fields in an agent's file, and keep its comments and all else; the bytes that it held before.

    A link is followed. Raises Failure "not_writable", also where the file cannot be read or edited.
    """
    what = f'cannot change agent "{path.stem}"'
    try:
        real = path.resolve(strict=True)
        before = files.read_own(real, MAX_AGENT)
        text = before.decode()
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        text = text.removeprefix(mark)
        for key, value in fields.items():
            text = edit.put(text, key, value)
        files.write_whole(real, (mark + text).encode())
    except OSError as error:
        raise _not_writable(what, path, error) from error
    except (files.Unfit, edit.Uneditable, ValueError, RecursionError) as error:
        raise Failure(
            "not_writable",
            f"{what}: {path}: {error}",
            hint="edit the file and run mcpctl reload",
            file=str(path),
        ) from None
    return before


def restore_agent(path: Path, before: bytes) -> None:
    """Undo `change_agent`. Raises Failure "not_writable"."""
    try:
        files.write_whole(path.resolve(), before)
    except OSError as error:
        raise _not_writable(f'cannot restore agent "{path.stem}"', path, error) from error


def remove_agent(path: Path) -> None:
    """Delete an agent's file. Raises Failure "not_writable", also when it is not there."""
    try:
        os.unlink(path)
        files.sync_folder(path.parent)
    except OSError as error:
        raise _not_writable(f'cannot remove agent "{path.stem}"', path, error) from error


def _not_writable(what: str, path: Path, error: OSError) -> Failure:
    return Failure("not_writable", f"{what}: {path}: {error.strerror or error}", file=str(path))


_EXPANDED = frozenset({"args", "env", "cwd", "url", "headers"})


def _literal(key: str, value: Any) -> Any:
    """A value as the file has to have it so that loading gives it back; tuples become lists."""
    if isinstance(value, Mapping):
        return {inner: _literal(key, item) for inner, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_literal(key, item) for item in value]
    if isinstance(value, str) and key in _EXPANDED:
        return escape(value)
    return value
