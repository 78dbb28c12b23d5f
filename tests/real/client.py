"""The official Python SDK as an agent: list all that a server has, make the calls of a plan, print what came.

stdin: {"command": [...], "env": {...}} or {"url": "http..."} or {"sse": "http..."} (the old transport), and
"calls": [[tool, arguments], ...], "asked": whether its user, model and roots can be asked for, "mode":
"auto" or "legacy", of version negotiation.
stdout: {"tools", "resources", "templates", "prompts", "results"}. A call that fails is
{"error": {"code", "message"}}; a list that the server does not have counts as an empty one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from pydantic import FileUrl

METHOD_NOT_FOUND = -32601


async def everything(ask: Callable[..., Awaitable[Any]], key: str) -> list[Any]:
    """All pages of one list."""
    entries: list[Any] = []
    cursor: str | None = None
    while True:
        try:
            page = await ask(cursor=cursor)
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND:
                return entries
            raise
        entries += [dump(entry) for entry in getattr(page, key)]
        if page.next_cursor is None:
            return entries
        cursor = page.next_cursor


async def call(client: Client, tool: str, arguments: dict[str, Any]) -> Any:
    try:
        return dump(await client.call_tool(tool, arguments))
    except MCPError as error:
        return {"error": {"code": error.code, "message": error.message}}


def dump(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def transport(plan: dict[str, Any]) -> Any:
    if "url" in plan:
        return plan["url"]
    if "sse" in plan:
        return sse_client(plan["sse"])
    command, *args = plan["command"]
    return stdio_client(StdioServerParameters(command=command, args=args, env=plan["env"]))


# -- what it answers where a server asks ---------------------------------------------------------------------
async def accept(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    if isinstance(params, types.ElicitRequestURLParams):
        return types.ElicitResult(action="accept")
    fields = params.requested_schema["properties"]
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    return types.ElicitResult(action="accept", content={**defaults, "name": "Ada", "check": True})


async def sample(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="sampled")
    return types.CreateMessageResult(role="assistant", content=content, model="none", stop_reason="endTurn")


async def roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///srv/project"), name="project")])


async def main() -> None:
    plan = json.load(sys.stdin)
    answers: dict[str, Any] = {
        "elicitation_callback": accept,
        "sampling_callback": sample,
        "list_roots_callback": roots,
    }
    async with Client(transport(plan), mode=plan["mode"], **(answers if plan["asked"] else {})) as client:
        said = {
            "tools": await everything(client.list_tools, "tools"),
            "resources": await everything(client.list_resources, "resources"),
            "templates": await everything(client.list_resource_templates, "resource_templates"),
            "prompts": await everything(client.list_prompts, "prompts"),
            "results": [await call(client, tool, arguments) for tool, arguments in plan["calls"]],
        }
    json.dump(said, sys.stdout)


asyncio.run(main())
