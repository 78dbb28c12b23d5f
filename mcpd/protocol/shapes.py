"""The parts of MCP messages that mcpd reads. Everything else passes through unread.

Every reader takes JSON text from a peer and is lenient about members it does not need.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from mcpd.errors import Failure
from mcpd.protocol.jsonrpc import ABSENT, VALUES, holds_many, is_id

T = TypeVar("T")

META_REVISION = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT = "io.modelcontextprotocol/clientInfo"
META_SERVER = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
META_LEVEL = "io.modelcontextprotocol/logLevel"

#: From the least important on; the index is a level's rank (5.6).
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

#: The rank of what an agent with a handshake hears until it says something else; a server may choose (5.6).
USUAL_LEVEL = 1

#: The last results may be cached for none of the time: what an agent may see can change at any moment.
LIST_CACHING = b'"ttlMs":0,"cacheScope":"private"'


class Noted(msgspec.Struct, frozen=True, rename="camel"):
    """The `_meta` of a request that goes to no server: nothing of it is acted on, but it must be one."""

    progress_token: msgspec.Raw = ABSENT

    def __post_init__(self) -> None:
        check_token(bytes(self.progress_token))


class NoParams(msgspec.Struct, frozen=True):
    """`ping` (5.7)."""

    meta: Noted | None = msgspec.field(default=None, name="_meta")


class CallParams(msgspec.Struct, frozen=True):
    """`tools/call` (5.2)."""

    name: str
    arguments: msgspec.Raw = ABSENT
    meta: msgspec.Raw = msgspec.field(default=ABSENT, name="_meta")
    task: msgspec.Raw = ABSENT
    """2025-11-25 (5.15)."""


class UriParams(msgspec.Struct, frozen=True):
    """`resources/read`, `resources/subscribe` and `resources/unsubscribe` (5.3)."""

    uri: str
    meta: msgspec.Raw = msgspec.field(default=ABSENT, name="_meta")


class PromptParams(msgspec.Struct, frozen=True):
    """`prompts/get` (5.4)."""

    name: str
    arguments: msgspec.Raw = ABSENT
    meta: msgspec.Raw = msgspec.field(default=ABSENT, name="_meta")


class PromptReference(msgspec.Struct, frozen=True, tag_field="type", tag="ref/prompt"):
    """What a completion is for (5.5)."""

    name: str
    title: str | None = None


class ResourceReference(msgspec.Struct, frozen=True, tag_field="type", tag="ref/resource"):
    """The same; the URI may be that of a template."""

    uri: str


class Argument(msgspec.Struct, frozen=True):
    """The argument that is being typed (5.5)."""

    name: str
    value: str


class Context(msgspec.Struct, frozen=True):
    """The arguments that stand already (5.5)."""

    arguments: dict[str, str] | None = None


class CompleteParams(msgspec.Struct, frozen=True):
    """`completion/complete` (5.5)."""

    ref: PromptReference | ResourceReference
    argument: Argument
    context: msgspec.Raw = ABSENT
    meta: msgspec.Raw = msgspec.field(default=ABSENT, name="_meta")


class TaskParams(msgspec.Struct, frozen=True, rename="camel"):
    """What asks for a task or tells of one (5.15, 5.16)."""

    task_id: str
    meta: msgspec.Raw = msgspec.field(default=ABSENT, name="_meta")


class MetaParams(msgspec.Struct, frozen=True):
    """Params of any request, for their `_meta` as it is."""

    meta: msgspec.Raw = msgspec.field(default=ABSENT, name="_meta")


class UpdateParams(msgspec.Struct, frozen=True, rename="camel"):
    """`tasks/update` (5.16)."""

    task_id: str
    input_responses: msgspec.Raw = ABSENT
    meta: msgspec.Raw = msgspec.field(default=ABSENT, name="_meta")


class TaskWish(msgspec.Struct, frozen=True):
    """The member of `tools/call` that wants it done as a task; `ttl`: milliseconds (5.15)."""

    ttl: float | None = None

    def __post_init__(self) -> None:
        if self.ttl is not None and not self.ttl.is_integer():
            raise ValueError("ttl is an integer")


class LevelParams(msgspec.Struct, frozen=True):
    """`logging/setLevel`, and what a log message is sorted by (5.6)."""

    level: str


class SetLevelParams(LevelParams, frozen=True):
    meta: Noted | None = msgspec.field(default=None, name="_meta")


class ListParams(msgspec.Struct, frozen=True):
    """Any `*/list` (5.10)."""

    cursor: str | None = None
    meta: Noted | None = msgspec.field(default=None, name="_meta")


class InitializeParams(msgspec.Struct, frozen=True, rename="camel"):
    """`initialize` (4.1); what the client says of itself is checked by `protocol.client`."""

    protocol_version: str
    client_info: dict[str, Any]
    capabilities: dict[str, Any]
    meta: Noted | None = msgspec.field(default=None, name="_meta")


class CancelledParams(msgspec.Struct, frozen=True, rename="camel"):
    request_id: msgspec.Raw = ABSENT
    reason: str = ""


class Completed(msgspec.Struct, frozen=True, rename="camel"):
    """`notifications/elicitation/complete` (5.12)."""

    elicitation_id: str


class ProgressParams(msgspec.Struct, frozen=True, rename="camel"):
    progress_token: msgspec.Raw = ABSENT
    progress: float = 0.0


class LogMessage(msgspec.Struct, frozen=True):
    """`notifications/message` (5.6)."""

    level: str
    logger: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")


class ErrorShape(msgspec.Struct, frozen=True):
    """What an error object must have (2)."""

    code: int
    message: str


class InitializeResult(msgspec.Struct, frozen=True, rename="camel"):
    protocol_version: Any = None
    capabilities: dict[str, Any] = {}
    server_info: Any = None
    instructions: Any = None


class DiscoverResult(msgspec.Struct, frozen=True, rename="camel"):
    supported_versions: list[str]
    capabilities: dict[str, Any] = {}
    instructions: Any = None
    meta: dict[str, Any] = msgspec.field(default_factory=dict, name="_meta")


class UnsupportedVersion(msgspec.Struct, frozen=True):
    """`data` of -32022, and of the older refusals of `initialize` (2.1, 4.1)."""

    supported: list[str] | None = None


class Meta(msgspec.Struct, frozen=True):
    """The members of a request's `_meta` that mcpd acts on."""

    revision: Any = msgspec.field(default=None, name=META_REVISION)
    capabilities: Any = msgspec.field(default=None, name=META_CAPABILITIES)
    client: Any = msgspec.field(default=None, name=META_CLIENT)
    log_level: Any = msgspec.field(default=None, name=META_LEVEL)
    progress_token: msgspec.Raw = msgspec.field(default=ABSENT, name="progressToken")

    def __post_init__(self) -> None:
        check_token(bytes(self.progress_token))


class Carrier(msgspec.Struct, frozen=True):
    """Params of any request, for their `_meta` alone."""

    said: Meta | None = msgspec.field(default=None, name="_meta")

    @property
    def meta(self) -> Meta:
        return self.said or Meta()


class ListenFilter(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a stream is to tell of, or does tell of (5.14)."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: tuple[str, ...] = ()
    task_ids: tuple[str, ...] = ()
    """Where the tasks extension is declared (5.16)."""


class StreamMeta(msgspec.Struct, frozen=True):
    """The member of `_meta` that says to which stream a notification belongs (5.14)."""

    subscription: msgspec.Raw = msgspec.field(default=ABSENT, name=META_SUBSCRIPTION)


class Acknowledged(msgspec.Struct, frozen=True):
    """`notifications/subscriptions/acknowledged` (5.14)."""

    meta: StreamMeta = msgspec.field(default_factory=StreamMeta, name="_meta")
    notifications: ListenFilter = ListenFilter()


class ListenParams(msgspec.Struct, frozen=True):
    """`subscriptions/listen` (5.14)."""

    notifications: ListenFilter


_CALL = msgspec.json.Decoder(CallParams)


def check_token(raw: bytes) -> None:
    """Raises ValueError for what is no progress token, where there is one (5.8)."""
    if raw not in (b"", b"null") and not is_id(raw):
        raise ValueError("progressToken is a string or an integer")


def read_call(raw: bytes) -> CallParams:
    """`read_params` for the one shape that is read for every call."""
    try:
        return _CALL.decode(raw or b"{}")
    except (msgspec.DecodeError, RecursionError) as e:
        raise Failure("invalid_params", f"invalid params: {e}") from None


def read_params(raw: bytes, shape: type[T]) -> T:
    """Params of an agent's request; absent ones count as empty. Raises Failure `invalid_params`."""
    if len(raw) > VALUES and holds_many(raw):
        raise Failure("invalid_params", f"invalid params: they hold more than {VALUES:,} values")
    try:
        return msgspec.json.decode(raw or b"{}", type=shape)
    except (msgspec.DecodeError, RecursionError) as e:
        raise Failure("invalid_params", f"invalid params: {e}") from None


def read_result(raw: bytes, shape: type[T]) -> T | None:
    """A server's result, or None when it does not have the shape, or holds very many values."""
    if len(raw) > VALUES and holds_many(raw):
        return None
    try:
        return msgspec.json.decode(raw, type=shape)
    except (msgspec.DecodeError, RecursionError):
        return None
