"""One server's entry, from TOML values to a Server or to what is wrong with it.

Pure. An entry is right as a whole or not used (a07). No message repeats a value of the
fields that can hold secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from mcpd.catalog.names import server_name_problem
from mcpd.config import fields
from mcpd.config.expand import BadReference, UnsetVariable, expand
from mcpd.config.fields import Fault, Reader, read_table
from mcpd.config.instances import stateful
from mcpd.config.spec import Faulty, Policy, Server

_SERVER: dict[str, Reader] = {
    "schema": fields.schema,
    "name": fields.text,
    "command": fields.text,
    "args": fields.texts,
    "env": fields.text_map,
    "cwd": fields.text,
    "path": fields.text,
    "url": fields.text,
    "headers": fields.text_map,
    "transport": fields.word("stdio", "http", "sse"),
    "default_policy": fields.table(fields.POLICY, Policy),
    "enabled": fields.flag,
    "start": fields.word("lazy", "eager"),
    "instance": fields.word("shared", "agent", "project"),
    "replay": fields.word("auto", "always", "never"),
    "protocol": fields.word("auto", "legacy", "2026-07-28"),
    "sampling": fields.flag,
    "roots": fields.word("none", "fixed", "agent"),
    "connect_timeout": fields.duration,
    "idle_timeout": fields.duration,
}
_SERVER_LATER = frozenset({"confine", "oauth", "may_attach", "max_in_flight"})
_SERVER_ELSEWHERE = {
    **{key: f"default_policy = {{ {key} = ... }}" for key in fields.POLICY},
    "disabled": "enabled = false",
    "trusted": "it under [overrides] in config.toml, or use mcpctl trust: no server speaks for itself",
    "type": "nothing: the transport follows from command or url",
}
_ONLY_STDIO = ("args", "env", "cwd", "path")
_ONLY_HTTP = ("headers",)


class Checked(NamedTuple):
    """A server that can be used or not, and each thing wrong with it."""

    server: Server | Faulty
    faults: tuple[Fault, ...]


def read_server(name: str, source: str, value: object, place: str, values: Mapping[str, str]) -> Checked:
    """One server from its table; `values` are the variables it may refer to."""
    read = read_table(value, place, _SERVER, _SERVER_LATER, _SERVER_ELSEWHERE)
    faults = list(read.faults)
    if problem := server_name_problem(name):
        faults.append(Fault(place, problem))
    if isinstance(value, dict):
        # What was written counts, also where its value could not be read.
        faults.extend(_contradictions(name, value, read.values, place))
    filled, unset = _fill(read.values, place, values, faults)
    if not unset:
        faults.extend(_misfits(filled, place))
    if faults or unset:
        every = (*faults, *unset)
        message = "; ".join(map(str, every))
        disabled_by = "" if read.values.get("enabled", True) else source
        reason: Literal["bad_definition", "unset_variable"] = "bad_definition" if faults else "unset_variable"
        return Checked(Faulty(name, source, reason, message, disabled_by), every)
    return Checked(_server(name, source, filled), ())


def _server(name: str, source: str, values: dict[str, Any]) -> Server:
    members = {key: item for key, item in values.items() if key not in ("schema", "name", "transport")}
    members["policy"] = members.pop("default_policy", Policy())
    if not members.get("enabled", True):
        members["disabled_by"] = source
    if "instance" not in members:
        known = stateful(members.get("command", ""), members.get("args", ()))
        if known is not None:
            members |= {"instance": "agent", "keeps": known.keeps}
    return Server(name=name, source=source, **members)


def _contradictions(name: str, written: dict[str, object], read: dict[str, Any], place: str) -> list[Fault]:
    faults: list[Fault] = []
    if read.get("name", name) != name:
        faults.append(Fault(fields.join(place, "name"), f'must be "{name}" like the entry itself'))
    command, url = written.get("command", "") != "", written.get("url", "") != ""
    if command and url:
        faults.append(Fault(place, 'has both "command" and "url", exactly one is needed'))
    elif not command and not url:
        faults.append(Fault(place, 'has neither "command" nor "url", exactly one is needed'))
    else:
        alone = "command" if command else "url"
        for key in _ONLY_HTTP if command else _ONLY_STDIO:
            if written.get(key):
                faults.append(Fault(fields.join(place, key), f'means nothing beside "{alone}"'))
        faults.extend(_transport(read.get("transport"), alone, fields.join(place, "transport")))
    return faults


def _transport(transport: str | None, alone: str, place: str) -> list[Fault]:
    # What is behind a URL is found out by asking, so "sse" says no more than "http" (b10).
    fitting = {"command": ("stdio",), "url": ("http", "sse")}[alone]
    if transport is None or transport in fitting:
        return []
    return [Fault(place, f'"{transport}" contradicts "{alone}"')]


def _fill(
    read: dict[str, Any], place: str, values: Mapping[str, str], faults: list[Fault]
) -> tuple[dict[str, Any], list[Fault]]:
    """The fields with variables filled in, and the variables that are not set."""
    unset: list[Fault] = []

    def fill(text: str, where: str) -> str:
        try:
            return expand(text, values)
        except UnsetVariable as missing:
            unset.extend(Fault(where, f'the variable "{name}" is not set') for name in missing.names)
        except BadReference as error:
            faults.append(Fault(where, str(error)))
        return ""

    filled = dict(read)
    for key in ("cwd", "url"):
        if key in read:
            filled[key] = fill(read[key], fields.join(place, key))
    for key in ("env", "headers"):
        if key in read:
            at = fields.join(place, key)
            filled[key] = {inner: fill(item, fields.join(at, inner)) for inner, item in read[key].items()}
    if "args" in read:
        at = fields.join(place, "args")
        filled["args"] = tuple(fill(item, f"{at}[{index}]") for index, item in enumerate(read["args"]))
    return filled, unset


# What must hold for the filled-in values. No message repeats a value.

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)


def _misfits(filled: dict[str, Any], place: str) -> list[Fault]:
    checks: tuple[tuple[str, Callable[[Any, str], list[Fault]]], ...] = (
        ("command", _check_plain),
        ("args", _check_args),
        ("path", _check_path),
        ("cwd", _check_cwd),
        ("url", _check_url),
        ("env", _check_env),
        ("headers", _check_headers),
    )
    return [
        fault
        for key, check in checks
        if filled.get(key)
        for fault in check(filled[key], fields.join(place, key))
    ]


def _check_plain(value: str, place: str) -> list[Fault]:
    return [Fault(place, 'variables are not filled in here, "${" cannot be used')] if "${" in value else []


def _check_args(value: tuple[str, ...], place: str) -> list[Fault]:
    return [
        Fault(f"{place}[{index}]", "holds a NUL character")
        for index, item in enumerate(value)
        if "\0" in item
    ]


def _check_path(value: str, place: str) -> list[Fault]:
    if all(folder.startswith("/") for folder in value.split(":")):
        return _check_plain(value, place)
    return [Fault(place, 'expected absolute folders separated by ":" ("~" is not filled in)')]


def _check_cwd(value: str, place: str) -> list[Fault]:
    if value.startswith("/"):
        return []
    return [Fault(place, 'expected an absolute folder ("~" is not filled in, write ${HOME})')]


def _check_url(value: str, place: str) -> list[Fault]:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if usable and "@" in parts.netloc:
        # No client sends them in one agreed way, and addresses are shown (RFC 9110 4.2.4).
        return [Fault(place, "holds a user name or password; set the header Authorization instead")]
    if usable and value.isprintable() and " " not in value:
        return []
    return [Fault(place, 'expected an address like "https://host/path"')]


def _check_env(value: dict[str, str], place: str) -> list[Fault]:
    faults = [
        Fault(place, f"cannot use {fields.join('', key)} as a name")
        for key in value
        if not key or set(key) & set("=\0")
    ]
    return faults + [
        Fault(fields.join(place, key), "holds a NUL character") for key, item in value.items() if "\0" in item
    ]


def _check_headers(value: dict[str, str], place: str) -> list[Fault]:
    faults = [
        Fault(place, f"cannot use {fields.join('', key)} as a header name")
        for key in value
        if not _HEADER_NAME.fullmatch(key)
    ]
    seen: set[str] = set()
    for key, item in value.items():
        if any((char < " " and char != "\t") or char == "\x7f" for char in item):
            faults.append(Fault(fields.join(place, key), "holds a line break or control character"))
        elif not item.isascii():
            faults.append(Fault(fields.join(place, key), "holds a character that no header can carry"))
        if key.lower() in seen:
            faults.append(Fault(fields.join(place, key), "the same header is there twice"))
        seen.add(key.lower())
    return faults
