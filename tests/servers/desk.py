"""A server as one should be: all that it says has schemas, hints and messages that help; on the official SDK.

    python -m tests.servers.desk                  on stdio
    python -m tests.servers.desk --http PORT      on HTTP; 0: a free port; prints the URL

It speaks every revision, and the referees (tests/conformance/referees.py) find nothing to say about it.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
from typing import Annotated, Literal

import mcp_types as types
import uvicorn
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, ConfigDict, Field

READS = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
FILES = types.ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
LISTS: tuple[CacheableMethod, ...] = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)

desk = MCPServer(
    "desk",
    title="Support desk",
    instructions="Look a ticket up before you answer it.",
    version="1.0.0",
    log_level="WARNING",
    cache_hints={method: CacheHint(ttl_ms=60_000, scope="private") for method in LISTS},
)


class Ticket(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int
    subject: str
    state: Literal["open", "closed"]


TICKETS = {number: Ticket(number=number, subject=f"Subject {number}", state="open") for number in (1, 2, 3)}
Number = Annotated[int, Field(strict=True, ge=1, description="The ticket's number")]


class Found(BaseModel):
    tickets: list[Ticket]


@desk.tool(title="Find tickets", annotations=READS)
def find(words: Annotated[str, Field(strict=True, max_length=200, description="What to look for")]) -> Found:
    """Find the tickets whose subject holds some words."""
    return Found(tickets=[ticket for ticket in TICKETS.values() if words in ticket.subject])


@desk.tool(title="Close a ticket", annotations=FILES)
def close(
    number: Number,
    reason: Annotated[Literal["answered", "duplicate"], Field(description="Why it is closed")],
    tags: Annotated[list[str], Field(max_length=5, description="What to file it under")] = [],  # noqa: B006
) -> Ticket:
    """Close a ticket, for a reason; a closed one stays as it is."""
    if number not in TICKETS:
        raise ToolError(f"There is no ticket {number}: numbers are {min(TICKETS)} to {max(TICKETS)}.")
    TICKETS[number] = TICKETS[number].model_copy(update={"state": "closed"})
    return TICKETS[number]


@desk.resource("desk://hours", title="Opening hours", mime_type="text/plain")
def hours() -> str:
    """When somebody is there."""
    return "Monday to Friday, 9 to 17"


@desk.resource("desk://tickets/{number}", title="One ticket", mime_type="application/json")
def ticket(number: str) -> str:
    """A ticket as it is kept."""
    return TICKETS[int(number)].model_dump_json()


@desk.prompt(title="Answer a ticket")
def answer(number: str) -> str:
    """Draft an answer to a ticket."""
    return f"Write a friendly answer to ticket {number}."


@desk.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(
    ref: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
    context: types.CompletionContext | None,
) -> types.Completion | None:
    values = [str(number) for number in TICKETS if str(number).startswith(argument.value)]
    return types.Completion(values=values, total=len(values), has_more=False)


async def serve(port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(desk.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser(description="A server as one should be")
    parser.add_argument("--http", type=int, metavar="PORT", help="serve HTTP instead of stdio")
    options = parser.parse_args()
    if options.http is None:
        desk.run()
    else:
        asyncio.run(serve(options.http))


if __name__ == "__main__":
    main()
