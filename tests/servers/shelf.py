"""A stdio MCP server of resources and prompts that change without a word, for tests (standard library only).

What it offers is read from the JSON file FILE at every request: {"resources": [URI], "prompts": [NAME]}.
`--announce` declares listChanged, without ever keeping that promise.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def offered(kind: str) -> list[str]:
    found: list[str] = json.loads(Path(sys.argv[1]).read_text()).get(kind, [])
    return found


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result; None for an unknown method."""
    match method:
        case "initialize":
            changes = {"listChanged": True} if "--announce" in sys.argv else {}
            capabilities = {"resources": changes, "prompts": changes}
            info = {"name": "shelf", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
        case "resources/list":
            return {"resources": [{"uri": uri, "name": uri} for uri in offered("resources")]}
        case "prompts/list":
            return {"prompts": [{"name": name} for name in offered("prompts")]}
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "text": f"the text of {params['uri']}"}]}
        case "prompts/get":
            text = {"type": "text", "text": f"the prompt {params['name']}"}
            return {"messages": [{"role": "user", "content": text}]}
        case "ping":
            return {}
    return None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        outcome = {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)


if __name__ == "__main__":
    main()
