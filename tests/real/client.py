"""The official Python SDK as an agent: list all that a server has, make the calls of a plan, print what came.

stdin: {"command": [...], "env": {...}} or {"url": "http..."} or {"sse": "http..."} (the old transport), and
"calls": [[tool, arguments], ...]. stdout: {"tools", "resources", "templates", "prompts", "results"}. A call
that fails is {"error": {"code", "message"}}; a list that the server does not have counts as an empty one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client

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


async def main() -> None:
    plan = json.load(sys.stdin)
    async with Client(transport(plan)) as client:
        said = {
            "tools": await everything(client.list_tools, "tools"),
            "resources": await everything(client.list_resources, "resources"),
            "templates": await everything(client.list_resource_templates, "resource_templates"),
            "prompts": await everything(client.list_prompts, "prompts"),
            "results": [await call(client, tool, arguments) for tool, arguments in plan["calls"]],
        }
    json.dump(said, sys.stdout)


asyncio.run(main())
