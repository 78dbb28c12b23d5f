"""A lively server (see `lively.py`) that has resources, templates, prompts, completions and logs as well.

Run as a module of this checkout: `python -m tests.servers.library`. `--bare` advertises tools and resources
alone; `--notes N` lists N more notes. Notes are resources `note:///N`; any number can be read, listed or not.
"""

from __future__ import annotations

import base64
import sys
from typing import Any

from tests.servers import lively
from tests.servers.lively import IS_MODERN, META, tool

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
STYLES = ["brief", "broad", "kind", "strict"]
BARE = "--bare" in sys.argv

CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, **({} if BARE else {"subscribe": True})},
    **({} if BARE else {"prompts": {"listChanged": True}, "completions": {}, "logging": {}}),
}


class Library(lively.Server):
    def __init__(self) -> None:
        super().__init__()
        self.capabilities = CAPABILITIES
        self.tools += [tool(name) for name in ("touch", "shelve", "teach", "say", "links")]
        more = int(sys.argv[sys.argv.index("--notes") + 1]) if "--notes" in sys.argv else 0
        self.uris = ["note:///1", "note:///2", "blob:///b", *(f"note:///{1000 + n}" for n in range(more))]
        self.prompts: list[dict[str, Any]] = [
            {"name": "greet", "description": "Says hello."},
            {
                "name": "review",
                "title": "Review",
                "arguments": [{"name": "code", "required": True}, {"name": "style"}],
            },
        ]
        self.level = 0
        self.watched: set[str] = set()

    def result(
        self, method: str, params: dict[str, Any], message: dict[str, Any], line: bytes
    ) -> dict[str, Any] | None:
        caching = {"ttlMs": 0, "cacheScope": "private"} if IS_MODERN else {}
        match method:
            case "resources/list":
                return {
                    "resources": [{"uri": u, "name": u[-1], "mimeType": "text/plain"} for u in self.uris]
                } | caching
            case "resources/templates/list":
                return {"resourceTemplates": [{"uriTemplate": "note:///{id}", "name": "a note"}]} | caching
            case "resources/read":
                found = self.read(params["uri"])
                return found if "code" in found else found | caching
            case "resources/subscribe" | "resources/unsubscribe" if not IS_MODERN and not BARE:
                if params["uri"] == "note:///locked":
                    return {"code": -32602, "message": "that one is locked"}
                act = self.watched.add if method == "resources/subscribe" else self.watched.discard
                act(params["uri"])
                return {}
            case "prompts/list" if not BARE:
                return {"prompts": self.prompts} | caching
            case "prompts/get" if not BARE:
                return self.prompt(params["name"], params.get("arguments"))
            case "completion/complete" if not BARE:
                return self.complete(params)
            case "logging/setLevel" if not IS_MODERN and not BARE:
                self.level = LEVELS.index(params["level"])
                return {}
        return super().result(method, params, message, line)

    def read(self, uri: str) -> dict[str, Any]:
        if uri.startswith("blob:"):
            data = base64.b64encode(b"12345").decode()
            return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": data}]}
        if not uri.removeprefix("note:///").isdigit():
            code = -32602 if IS_MODERN else -32002
            return {"code": code, "message": "no such note", "data": {"uri": uri}}
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"note {uri[8:]}"}]}

    def prompt(self, name: str, arguments: dict[str, str] | None) -> dict[str, Any]:
        if name not in [prompt["name"] for prompt in self.prompts]:
            return {"code": -32602, "message": f"no prompt {name}"}
        if name == "review" and not (arguments or {}).get("code"):
            return {"code": -32602, "message": "code is missing"}
        said = {
            "type": "text",
            "text": f"{name} {'nothing' if arguments is None else sorted(arguments.items())}",
        }
        link = {"type": "resource_link", "uri": "note:///1", "name": "1"}
        return {"messages": [{"role": "user", "content": said}, {"role": "assistant", "content": link}]}

    def complete(self, params: dict[str, Any]) -> dict[str, Any]:
        self.log("completing", ref=params["ref"], context=params.get("context"))
        values = [style for style in STYLES if style.startswith(params["argument"]["value"])]
        return {"completion": {"values": values, "total": len(values), "hasMore": False}}

    def call(self, name: str, args: dict[str, Any], message: dict[str, Any], line: bytes) -> dict[str, Any]:
        match name:
            case "touch":
                self.touch(args["uri"], args.get("times", 1))
            case "shelve":
                self.uris.append(args["uri"])
                self.announce("resources")
            case "teach":
                self.prompts.append({"name": args["name"]})
                self.announce("prompts")
            case "say":
                self.say(args, message)
                self.wait(args.get("seconds", 0), False, message)
            case "links":
                link = {"type": "resource_link", "uri": "note:///1", "name": "1"}
                return {
                    "content": [link, {"type": "resource", "resource": {"uri": "note:///2", "text": "2"}}]
                }
        return super().call(name, args, message, line)

    def touch(self, uri: str, times: int) -> None:
        method = "notifications/resources/updated"
        for _ in range(times):
            if any(uri.startswith(watched) for watched in self.watched):
                self.send({"method": method, "params": {"uri": uri}})
            for listener, wanted in list(self.wishes.items()):
                if uri in wanted.get("resourceSubscriptions", ()):
                    about = {META + "subscriptionId": listener}
                    self.send({"method": method, "params": {"uri": uri, "_meta": about}})

    def say(self, args: dict[str, Any], message: dict[str, Any]) -> None:
        wanted = self.level
        if IS_MODERN:
            level = message["params"]["_meta"].get(META + "logLevel")
            if level is None:
                return
            wanted = LEVELS.index(level)
        for level in args.get("levels", LEVELS):
            if LEVELS.index(level) >= wanted:
                said = {"level": level, "logger": "shelf", "data": {"text": args.get("text", level)}}
                self.send({"method": "notifications/message", "params": said})


if __name__ == "__main__":
    server = Library()
    server.log("start")
    server.run()
