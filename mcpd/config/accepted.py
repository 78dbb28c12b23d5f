"""What of the files a person has accepted, and how what they say now differs from it (a03, n24).

Pure. An accepted definition is kept without the values of `env` and `headers`; whether they are still the
same its digest tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from mcpd.api.masks import mask_url
from mcpd.config.spec import Config, Hold, Server

#: Fields of a server that decide what runs or is contacted, and what it gets there.
_RUNS = ("command", "args", "env", "cwd", "path", "executable", "url", "headers", "protocol")

#: What the server is told when it is opened, so that a change is a new beginning (5.1).
_TOLD = ("sampling", "roots")

#: In place of the fields whose values are not kept.
HIDDEN = "a value of env, headers or url"


class Launched(NamedTuple):
    """What a launcher (npx, uvx, pipx, docker) was found to start (n09)."""

    place: tuple[str, ...]
    """Where it is looked for again, see `upstream.launched`."""
    digest: str
    words: str
    """Package and version, or image, for people."""


class Accepted(msgspec.Struct, frozen=True):
    """One server as it was accepted last."""

    server: Server
    """Without values of env and headers, and with a masked URL."""
    digest: str
    destination: str

    @property
    def values(self) -> bool:
        """Whether it got values that its next destination must not get without a word."""
        return bool(self.server.env or self.server.headers or "?" in self.server.url)


def of(server: Server) -> Accepted:
    bare = replace(
        server,
        env=dict.fromkeys(_given(server.env), ""),
        headers=dict.fromkeys(_given(server.headers), ""),
        url=mask_url(server.url),
    )
    return Accepted(bare, server.digest, server.destination)


def _given(values: Mapping[str, str]) -> list[str]:
    return [name for name, value in values.items() if value]


def still_accepted(known: Accepted, read: Server) -> Server | None:
    """The accepted definition with its values, if what is read now runs the same; else None."""
    if (known.digest, known.destination) != (read.digest, read.destination):
        return None
    return replace(known.server, env=read.env, headers=read.headers, url=read.url)


def remembered(read: Config, executables: Mapping[str, Server]) -> Config:
    """`read`, where a command that is not found at the moment is still the file that it was.

    Whether that can be started is seen when it is; a file that has gone is no new destination.
    """
    servers = {}
    for name, server in read.servers.items():
        known = executables.get(name)
        lost = known is not None and not server.executable and _same_lookup(known, server)
        servers[name] = replace(server, executable=known.executable) if known and lost else server
    return replace(read, servers=servers)


def _same_lookup(one: Server, other: Server) -> bool:
    return (one.command, one.cwd, one.path) == (other.command, other.cwd, other.path)


def moved(known: Accepted | None, server: Server, *, filed: bool) -> bool:
    """Whether a server has another destination than the accepted one, under which something is filed: the
    values that it got, or, where `filed`, what a person has agreed to (n24)."""
    if known is None or known.destination == server.destination:
        return False
    before = known.server
    if not before.executable and replace(server, executable="").destination == before.destination:
        return False  # its command was not there before, so nothing was ever given to it
    return known.values or bool(before.trusted) or filed


def has_moved(server: str) -> Hold:
    return Hold(server, "its destination changed", "accept")


def has_changed(known: Accepted | None, server: Server) -> Hold:
    """Why a server that does not run is not started: what is new about it since it was accepted."""
    if known is None:
        return Hold(server.name, "new", "reload")
    what = " and ".join(field for field in differing(known, server) if field in (*_RUNS, *_TOLD, HIDDEN))
    return Hold(server.name, f"{what} changed while mcpd did not run", "reload")


def differing(known: Accepted, server: Server) -> list[str]:
    """The fields that are not as they were accepted; of values that are not kept nothing more can be told."""
    now = of(server)
    fields = [
        field
        for field in Server.__struct_fields__
        if field not in ("source", "disabled_by", "keeps")
        and getattr(known.server, field) != getattr(now.server, field)
    ]
    runs = any(field in (*_RUNS, *_TOLD) for field in fields)
    return fields if runs or known.digest == now.digest else [HIDDEN, *fields]


def with_destination_of(running: Server, new: Server) -> Server:
    """The new definition in all that does not decide what runs or is contacted."""
    return replace(new, **{field: getattr(running, field) for field in _RUNS}, source=running.source)
