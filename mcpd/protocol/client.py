"""What a client says of itself, held to the letter: `clientInfo` and `capabilities` (4.1, 4.2, 5.1).

What mcpd reads of it is read elsewhere (`abilities`, `extensions`); here only its shape counts. Members that
no revision names may be anything. Null in the place of a member that may be left out counts as left out:
that is how some SDKs write it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mcpd.errors import Failure
from mcpd.protocol.revisions import Revision

Settings = dict[str, Any]


class Icon(msgspec.Struct, rename="camel"):
    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class PlainImplementation(msgspec.Struct):
    """Before 2025-11-25."""

    name: str
    version: str
    title: str | None = None


class Implementation(PlainImplementation, rename="camel"):
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class Roots(msgspec.Struct, rename="camel"):
    list_changed: bool | None = None


class PlainCapabilities(msgspec.Struct):
    """Before 2025-11-25."""

    roots: Roots | None = None
    sampling: Settings | None = None
    elicitation: Settings | None = None
    experimental: dict[str, Settings | None] | None = None


class Sampling(msgspec.Struct):
    tools: Settings | None = None
    context: Settings | None = None


class Elicitation(msgspec.Struct):
    form: Settings | None = None
    url: Settings | None = None


class TaskElicitation(msgspec.Struct):
    create: Settings | None = None


class TaskSampling(msgspec.Struct, rename="camel"):
    create_message: Settings | None = None


class TaskRequests(msgspec.Struct):
    elicitation: TaskElicitation | None = None
    sampling: TaskSampling | None = None


class Tasks(msgspec.Struct):
    list: Settings | None = None
    cancel: Settings | None = None
    requests: TaskRequests | None = None


class Capabilities(msgspec.Struct):
    roots: Roots | None = None
    sampling: Sampling | None = None
    elicitation: Elicitation | None = None
    tasks: Tasks | None = None
    experimental: dict[str, Settings | None] | None = None
    extensions: dict[str, Settings | None] | None = None


def check(info: Any, capabilities: Any, revision: Revision) -> None:
    """Raises Failure `invalid_params` for what has another shape than in the revision. `info`: None where it
    is left out."""
    if info is not None:
        _check(info, PlainImplementation if revision.plain else Implementation, "clientInfo")
    if capabilities != {}:
        _check(capabilities, PlainCapabilities if revision.plain else Capabilities, "capabilities")


def _check(value: Any, shape: type[Any], name: str) -> None:
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError as e:
        raise Failure("invalid_params", f"invalid params: {name}: {e}") from None
