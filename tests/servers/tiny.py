"""A stdio MCP server of a few tools, for tests that need a real child process (standard library only).

Options: `--silent` never answers, `--tools N` lists N more tools, `--refuse` ends at once, `--deaf FILE`
closes its input after its first listing and lives on, unless the file exists already.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

KNOWN = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else ""


def tool(name: str, *required: str, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {key: {} for key in required}, "required": list(required)}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema, **more}


TOOLS = [
    tool("echo", "text", annotations={"readOnlyHint": True}),
    tool("add", "a", "b"),
    tool("sleep", "seconds"),
    tool("crash"),
    tool("env", "name"),
    tool("big", "size"),
    tool("fail"),
    *(tool(f"extra_{number}") for number in range(int(option("--tools") or 0))),
]


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "sleep":
        time.sleep(arguments["seconds"])
    if name == "crash":
        os._exit(3)
    match name:
        case "echo":
            text = arguments["text"]
        case "add":
            text = str(arguments["a"] + arguments["b"])
        case "env":
            text = os.environ.get(arguments["name"], "")
        case "big":
            text = "x" * arguments["size"]
        case _:
            text = "done"
    return {"content": [{"type": "text", "text": text}], "isError": name == "fail"}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        revision = params["protocolVersion"] if params["protocolVersion"] in KNOWN else KNOWN[-1]
        result: dict[str, Any] = {
            "protocolVersion": revision,
            "capabilities": {"tools": {}},
            "instructions": "be kind",
        }
        return {"result": {**result, "serverInfo": {"name": "tiny", "version": "1"}}}
    if method == "tools/list":
        return {"result": {"tools": TOOLS}}
    if method == "tools/call":
        return {"result": call(params["name"], params.get("arguments") or {})}
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": -32601, "message": f"no method {method}"}}


def main() -> None:
    print("tiny server starts", file=sys.stderr, flush=True)
    if "--refuse" in sys.argv:
        sys.exit("tiny server has no wish to run")
    deaf = option("--deaf")
    for line in sys.stdin:
        message = json.loads(line)
        goes_deaf = deaf and message["method"] == "tools/list" and not os.path.exists(deaf)
        if goes_deaf:
            with open(deaf, "w"):
                os.close(0)
        if "id" in message and "--silent" not in sys.argv:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)}), flush=True)
        if goes_deaf:
            time.sleep(600)


if __name__ == "__main__":
    main()
