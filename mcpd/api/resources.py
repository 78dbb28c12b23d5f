"""Resources and resource templates of all servers, as the operator sees them: `resources.*`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mcpd.api import Params
from mcpd.api.terms import Approval, Risk


class ListResources(Params, frozen=True, kw_only=True):
    server: str = ""
    agent: str = ""
    """Only what this agent may read; empty: everything."""
    cursor: str = ""


class ResourceInfo(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    uri: str
    """As the server says it; of a template the URI template (RFC 6570)."""
    name: str
    """The URI that agents see, with the server in it."""
    template: bool
    label: str
    """The name that the server gives it, which need not be unique."""
    title: str
    description: str
    mime_type: str
    size: int | None
    """Bytes, where the server says so."""
    risk: Risk
    approval: Approval
    """Both of reading: what counts for the tool `read_resource` of the server (a01)."""


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    resources: tuple[ResourceInfo, ...]
    """The resources of all servers, then their templates."""
    next_cursor: str = ""
    left_out: tuple[str, ...] = ()
    """What is missing from the list, each with the reason (b24)."""


class ReadResource(Params, frozen=True, kw_only=True):
    uri: str
    """Of the server, where that is named; else as agents see it."""
    server: str = ""
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Seconds; it can only shorten what policy allows. `patience` is added to it."""
    patience: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Seconds to wait for a person before the answer is `pending`; absent: what the settings say (n05)."""


class ResourceRead(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    uri: str
    """The server's own."""
    result: msgspec.Raw
    """The ReadResourceResult."""
    cut: bool
    """Whether anything of it was left out (a18)."""
    duration: float
