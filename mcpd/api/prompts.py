"""Prompts of all servers, as the operator sees them: `prompts.*`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mcpd.api import Params
from mcpd.api.terms import Approval, Risk


class ListPrompts(Params, frozen=True, kw_only=True):
    server: str = ""
    agent: str = ""
    """Only what this agent may get, in its spelling; empty: everything."""
    cursor: str = ""


class PromptArgument(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    required: bool


class PromptInfo(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    prompt: str
    """The server's own name."""
    name: str
    """The name that agents see (D2)."""
    title: str
    description: str
    arguments: tuple[PromptArgument, ...]
    risk: Risk
    approval: Approval
    """Both of getting: what counts for the tool `get_prompt` of the server (a01)."""


class Prompts(msgspec.Struct, frozen=True, kw_only=True):
    prompts: tuple[PromptInfo, ...]
    next_cursor: str = ""
    left_out: tuple[str, ...] = ()
    """What is missing from the list, each with the reason (b24)."""


class GetPrompt(Params, frozen=True, kw_only=True):
    """Either `server` and `prompt`, or `name` as agents see it."""

    server: str = ""
    prompt: str = ""
    name: str = ""
    arguments: dict[str, str] = msgspec.field(default_factory=dict)
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Seconds; it can only shorten what policy allows. `patience` is added to it."""
    patience: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Seconds to wait for a person before the answer is `pending`; absent: what the settings say (n05)."""


class GotPrompt(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    prompt: str
    result: msgspec.Raw
    """The GetPromptResult."""
    duration: float
