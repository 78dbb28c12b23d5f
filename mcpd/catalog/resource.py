"""Resources and resource templates as servers list them, kept as JSON text (protocol reference 5.3).

A URI is a name: nothing is fetched by it and nothing is read from it. It passes as it is spelled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from functools import partial
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from mcpd.catalog.definition import (
    COMMON,
    LIMITS,
    OBJECT,
    STRING,
    Icon,
    Limits,
    Reading,
    Shapes,
    check_identity,
    drop_nulls,
    drop_odd,
    fits,
    read_definitions,
    take_apart,
)
from mcpd.catalog.members import join_members, split_members
from mcpd.catalog.schema import AnyObject


class Resource(msgspec.Struct, frozen=True):
    """One resource of one server."""

    uri: str
    """The server's own URI, exactly."""
    rest: bytes
    """The members of the entry other than `uri`, as JSON text without the braces."""

    def entry(self, uri: str) -> bytes:
        """The entry as JSON text under the given URI; the same for agents of every revision."""
        return b'{"uri":' + msgspec.json.encode(uri) + b"," + self.rest + b"}"


class Template(msgspec.Struct, frozen=True):
    """One resource template of one server."""

    uri_template: str
    """The server's own URI template (RFC 6570), exactly."""
    rest: bytes
    """The members of the entry other than `uriTemplate`, as JSON text without the braces."""

    def entry(self, uri_template: str) -> bytes:
        """The entry as JSON text under the given template; the same for agents of every revision."""
        return b'{"uriTemplate":' + msgspec.json.encode(uri_template) + b"," + self.rest + b"}"


class _Described(msgspec.Struct, rename="camel"):
    """What both kinds have beside their URI, as no client refuses it."""

    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    size: Annotated[int, msgspec.Meta(ge=0)] | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    annotations: AnyObject | UnsetType = UNSET
    meta: AnyObject | UnsetType = msgspec.field(name="_meta", default=UNSET)


class _Resource(_Described, kw_only=True):
    uri: str


class _Template(_Described, rename="camel", kw_only=True):
    uri_template: str


_RESOURCE: Final = msgspec.json.Decoder(_Resource)
_TEMPLATE: Final = msgspec.json.Decoder(_Template)
_SIZE: Final = msgspec.json.Decoder(Annotated[int, msgspec.Meta(ge=0)])
_AUDIENCE: Final = msgspec.json.Decoder(list[Literal["user", "assistant"]])
_PRIORITY: Final = msgspec.json.Decoder(Annotated[float, msgspec.Meta(ge=0, le=1)])

_OPTIONAL: Final[Shapes] = {
    **COMMON,
    "mimeType": (STRING, "no string"),
    "size": (_SIZE, "no number of bytes"),
    "annotations": (OBJECT, "no object"),
}

#: The TypeScript client drops a whole list for a time of any other form.
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})T(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)


def read_resources(
    pages: Iterable[bytes], limits: Limits = LIMITS, taken: int = 0
) -> tuple[tuple[Resource, ...], tuple[str, ...]]:
    """The usable resources of a server, in its order, and what was left out or mended.

    Parameters as those of `read_tools`. Never raises for anything a page may hold.
    """
    return read_definitions(pages, "resource", _read_resource, lambda one: one.uri, limits, taken)


def read_templates(
    pages: Iterable[bytes], limits: Limits = LIMITS, taken: int = 0
) -> tuple[tuple[Template, ...], tuple[str, ...]]:
    """The same of resource templates."""
    return read_definitions(
        pages, "resource template", _read_template, lambda one: one.uri_template, limits, taken
    )


def _read_resource(text: bytes, reading: Reading) -> Resource:
    members, known, _ = take_apart(text, reading, _RESOURCE, partial(_mend, "uri"))
    check_identity(known.uri, "URI", reading.limits.uri)
    del members["uri"]
    _check_annotations(members, reading.notes)
    return Resource(known.uri, join_members(members))


def _read_template(text: bytes, reading: Reading) -> Template:
    members, known, _ = take_apart(text, reading, _TEMPLATE, partial(_mend, "uriTemplate"))
    check_identity(known.uri_template, "URI template", reading.limits.uri)
    del members["uriTemplate"]
    _check_annotations(members, reading.notes)
    return Template(known.uri_template, join_members(members))


def _mend(identity: str, members: dict[str, bytes], notes: list[str]) -> None:
    """Mend, in place, what clients would refuse, except for the URI."""
    drop_nulls(members, ("name", *_OPTIONAL))
    if identity in members and not fits(STRING, members.get("name", b"null")):
        # Every client wants one, and a resource is useful without.
        members["name"] = members[identity]
        notes.append("name is missing or no string, its URI stands for it")
    drop_odd(members, _OPTIONAL, notes)


def _check_annotations(members: dict[str, bytes], notes: list[str]) -> None:
    """Take out of the annotations, in place, what clients would refuse (5.2)."""
    if "annotations" not in members:
        return
    found = split_members(bytes(members["annotations"]))
    kept = {key: value for key, value in found.items() if _is_annotation(key, value)}
    if len(kept) == len(found):
        return
    members["annotations"] = b"{" + join_members(kept) + b"}"
    odd = [key for key in found if key not in kept and found[key] != b"null"]
    notes += [f"annotation {key} is of the wrong form, dropped" for key in odd]


def _is_annotation(key: str, value: bytes) -> bool:
    """Whether clients take the member; those that nobody has specified they do."""
    match key:
        case "audience":
            return fits(_AUDIENCE, value)
        case "priority":
            return fits(_PRIORITY, value)
        case "lastModified":
            return fits(STRING, value) and _is_time(STRING.decode(value))
    return True


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    try:
        return found is not None and bool(date.fromisoformat(found[1]))
    except ValueError:
        return False
