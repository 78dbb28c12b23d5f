"""The official Python SDK as an agent on stdio: take the steps of a plan, print what came of each.

stdin: {"command", "env", "mode": "legacy" or "auto", "steps": [[verb, params], ...]}. stdout: {"results",
"notices"}: a result for each step, {"error": code} for one that fails, and [method, params] of all
notifications in the order of their coming.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import PromptReference, ResourceTemplateReference


async def step(client: Client, verb: str, params: dict[str, Any]) -> Any:
    match verb:
        case "read":
            return await client.read_resource(params["uri"])
        case "get":
            return await client.get_prompt(params["name"], params.get("arguments"))
        case "complete":
            ref = params["ref"]
            kind = PromptReference if ref["type"] == "ref/prompt" else ResourceTemplateReference
            return await client.complete(kind(**ref), params["argument"], params.get("context"))
        case "level":
            return await client.set_logging_level(params["level"])
        case "subscribe":
            return await client.subscribe_resource(params["uri"])
        case "unsubscribe":
            return await client.unsubscribe_resource(params["uri"])
        case "call":
            return await client.call_tool(params["name"], params.get("arguments"))
    raise AssertionError(verb)


def dump(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def main() -> None:
    plan = json.load(sys.stdin)
    notices: list[Any] = []

    async def heard(message: Any) -> None:
        if hasattr(message, "method"):
            notices.append([message.method, dump(message).get("params", {})])

    command, *args = plan["command"]
    transport = stdio_client(StdioServerParameters(command=command, args=args, env=plan["env"]))
    results = []
    async with Client(transport, mode=plan["mode"], message_handler=heard) as client:
        for verb, params in plan["steps"]:
            try:
                results.append(dump(await step(client, verb, params)))
            except MCPError as error:
                results.append({"error": error.code})
        await asyncio.sleep(0.3)
    json.dump({"results": results, "notices": notices}, sys.stdout)


asyncio.run(main())
