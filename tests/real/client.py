"""The official Python SDK as an agent: list all tools, make the calls of a plan, print what came.

argv: the command line of the server. stdin: {"env": {...}, "calls": [[tool, arguments], ...]}.
stdout: {"tools": [...], "results": [...]}; a call that fails is {"error": {"code", "message"}}.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client


async def list_all(client: Client) -> list[Any]:
    tools: list[Any] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += [dump(tool) for tool in page.tools]
        if page.next_cursor is None:
            return tools
        cursor = page.next_cursor


async def call(client: Client, tool: str, arguments: dict[str, Any]) -> Any:
    try:
        return dump(await client.call_tool(tool, arguments))
    except MCPError as error:
        return {"error": {"code": error.code, "message": error.message}}


def dump(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def main(argv: list[str]) -> None:
    plan = json.load(sys.stdin)
    server = StdioServerParameters(command=argv[0], args=argv[1:], env=plan["env"])
    async with Client(stdio_client(server)) as client:
        tools = await list_all(client)
        results = [await call(client, tool, arguments) for tool, arguments in plan["calls"]]
    json.dump({"tools": tools, "results": results}, sys.stdout)


asyncio.run(main(sys.argv[1:]))
