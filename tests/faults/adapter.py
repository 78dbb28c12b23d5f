"""The adapter of `../shared/faults/run_case.py` for mcpd; run the runner with `.venv/bin/python`.

Every case gets a daemon of its own in private folders below the case's folder. Servers are added as an
operator adds them (a file in servers_dir and `daemon.reload`, a03), calls are made as an agent makes
them: MCP 2025-11-25 on the agent socket, one connection a client and server, attached to that server
alone so that its tools keep their own names (DESIGN 3).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import tomli_w
from adapters.base import BaseAdapter, CallFailed, NotSupported

sys.path.append(str(Path(__file__).parents[2]))
from tests import visitor

COMMAND = [sys.executable, "-I", "-m", "mcpd", "run"]
LINE_LIMIT = 2**26
STATES = {
    "connected": "connected",
    "connecting": "connecting",
    "restarting": "connecting",
    "failed": "failed",
    "crashed": "failed",
    "held": "failed",
    "waiting_secrets": "failed",
    "needs_auth": "needs_auth",
    "disabled": "disabled",
}
PASSED_ON = (
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
    "FAULT_HOST_SECRET",
)


class Line:
    """One newline-delimited JSON-RPC connection; answers find their request by id."""

    def __init__(self) -> None:
        self.last_id = 0
        self.waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.progress: dict[int, asyncio.Event] = {}

    async def open(self, path: Path, *, by: visitor.Who | None = None) -> None:
        """`by`: another process that opens the connection."""
        if by is None:
            self.reader, self.writer = await asyncio.open_unix_connection(str(path), limit=LINE_LIMIT)
        else:
            sock = visitor.connect(by, str(path))
            self.reader, self.writer = await asyncio.open_unix_connection(sock=sock, limit=LINE_LIMIT)
        self.task = asyncio.ensure_future(self.pump())

    async def pump(self) -> None:
        try:
            while line := await self.reader.readline():
                message = json.loads(line)
                if "method" not in message:
                    slot = self.waiting.pop(message.get("id"), None)
                    if slot is not None and not slot.done():
                        slot.set_result(message)
                elif message["method"] == "notifications/progress":
                    heard = self.progress.get(message["params"]["progressToken"])
                    if heard is not None:
                        heard.set()
        finally:
            for slot in self.waiting.values():
                if not slot.done():
                    slot.set_exception(CallFailed("the daemon closed the connection"))

    def send(self, message: dict[str, Any]) -> None:
        self.writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def request(self, method: str, params: dict[str, Any]) -> tuple[int, asyncio.Future[dict[str, Any]]]:
        if self.task.done():
            raise CallFailed("the daemon closed the connection")
        self.last_id += 1
        slot: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.waiting[self.last_id] = slot
        self.send({"id": self.last_id, "method": method, "params": params})
        return self.last_id, slot

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        _, slot = self.request(method, params)
        return self.read(await slot)

    async def call(self, tool: str, args: dict[str, Any], limit: float) -> dict[str, Any]:
        """tools/call with a limit that starts anew with every progress notice, as hosts do."""
        token = self.last_id + 1
        heard = self.progress[token] = asyncio.Event()
        params = {"name": tool, "arguments": args, "_meta": {"progressToken": token}}
        number, slot = self.request("tools/call", params)
        try:
            while not slot.done():
                news: asyncio.Future[Any] = asyncio.ensure_future(heard.wait())
                await asyncio.wait((slot, news), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                if not slot.done() and not heard.is_set():
                    raise CallFailed(f"timed out after {limit} s")
                heard.clear()
            return self.read(slot.result())
        except BaseException:
            if not slot.done():
                self.send({"method": "notifications/cancelled", "params": {"requestId": number}})
            raise
        finally:
            self.waiting.pop(number, None)
            self.progress.pop(token, None)

    @staticmethod
    def read(answer: dict[str, Any]) -> dict[str, Any]:
        if "error" in answer:
            raise CallFailed(json.dumps(answer["error"], ensure_ascii=False))
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> None:
        self.writer.close()


def definition(cfg: dict[str, Any]) -> dict[str, Any]:
    """A server's TOML fields from what the runner says; every call is allowed by policy."""
    out: dict[str, Any] = {
        k: cfg[k] for k in ("command", "args", "env", "cwd", "url", "headers") if cfg.get(k)
    }
    policy: dict[str, Any] = {"risk": "low", "approval": "never"}
    if "call_timeout" in cfg:
        policy["timeout"] = cfg["call_timeout"]
    if "connect_timeout" in cfg:
        out["connect_timeout"] = cfg["connect_timeout"]
    return {**literal(out), "default_policy": policy}


def literal(value: Any) -> Any:
    """The cases' values are meant as they stand; mcpd's files expand ${VAR} (a05)."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, list):
        return [literal(item) for item in value]
    if isinstance(value, dict):
        return {key: literal(item) for key, item in value.items()}
    return value


class Adapter(BaseAdapter):  # type: ignore[misc]
    name = "mcpd"
    features: ClassVar[set[str]] = {
        *("stdio", "http", "auto_restart", "auto_reconnect", "reason", "multi_client", "daemon")
    }

    def __init__(self) -> None:
        self.proc: asyncio.subprocess.Process | None = None
        self.control_line: Line | None = None
        self.agents: dict[tuple[str, str], Line] = {}
        self.demands: set[asyncio.Task[None]] = set()
        self.loose: list[Line] = []
        self.env: dict[str, str] = {}
        self.kept_config: bytes | None = None
        self.starts = 0

    # -- folders and the daemon's process --------------------------------------------------------
    async def start(self, tmp: str, case: dict[str, Any]) -> None:
        self.tmp = Path(tmp)
        self.home = self.tmp / "home"
        self.config = self.home / ".config" / "mcpd"
        self.run = self.tmp / "run" / "mcpd"
        for folder in (self.home, self.config / "servers.d"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.tmp / "run").mkdir(mode=0o700, exist_ok=True)
        if not case.get("manual_start"):
            got = await self.launch(within=10)
            if not got["ok"]:
                raise RuntimeError(f"the daemon did not start: {got['text']}")

    def environment(self, only: dict[str, str] | None) -> dict[str, str]:
        """Private folders; with `only`, exactly those variables and the one that moves the sockets."""
        if only is not None:
            return {**only, "MCPD_RUNTIME_DIR": str(self.run)}
        env = {k: os.environ[k] for k in PASSED_ON if k in os.environ}
        return env | {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.run.parent),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_STATE_HOME": str(self.home / ".local" / "state"),
            "XDG_DATA_HOME": str(self.home / ".local" / "share"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
        }

    async def spawn(self, umask: str | None) -> tuple[asyncio.subprocess.Process, Path]:
        self.starts += 1
        log = self.tmp / f"daemon-{self.starts}.log"
        with open(log, "wb") as out:
            proc = await asyncio.create_subprocess_exec(
                *COMMAND,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self.env,
                cwd="/",
                umask=-1 if umask is None else int(umask, 8),
            )
        return proc, log

    async def launch(
        self,
        within: float,
        umask: str | None = None,
        env_only: dict[str, str] | None = None,
        config: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        self.forget_lines()
        self.env = self.environment(env_only)
        if config is not None:
            servers = {name: definition(cfg) for name, cfg in config["mcpServers"].items()}
            (self.config / "config.toml").write_text(tomli_w.dumps({"servers": servers}), "utf-8")
        self.proc, log = await self.spawn(umask)
        end = time.monotonic() + within
        while time.monotonic() < end:
            if self.proc.returncode is not None:
                return self.ended(self.proc.returncode, log)
            with contextlib.suppress(OSError, CallFailed):
                await self.control("daemon.status", {})
                return {"ok": True, "text": ""}
            self.forget_lines()
            await asyncio.sleep(0.05)
        self.proc.kill()
        return {"ok": "no answer in time", "text": tail(log)}

    @staticmethod
    def ended(code: int, log: Path) -> dict[str, Any]:
        """A refusal counts only with a non-zero exit and words."""
        text = tail(log)
        return {"ok": False if code != 0 and text.strip() else f"exit {code} without words", "text": text}

    async def stop(self) -> None:
        for line in [*self.loose, *self.agents.values()]:
            line.close()
        if self.proc is not None and self.proc.returncode is None:
            self.proc.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self.proc.wait(), 12)
            except TimeoutError:
                self.proc.kill()

    def rss_mib(self) -> float:
        if self.proc is None:
            return 0.0
        with open(f"/proc/{self.proc.pid}/status") as status:
            for row in status:
                if row.startswith("VmRSS:"):
                    return int(row.split()[1]) / 1024
        return 0.0

    # -- connections -----------------------------------------------------------------------------
    def forget_lines(self) -> None:
        for line in [*self.agents.values(), *self.loose, *([self.control_line] if self.control_line else [])]:
            line.close()
        self.agents, self.loose, self.control_line = {}, [], None

    async def control(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self.control_line is None:
            line = Line()
            # An agent, which this process is as well, widens nothing (n06).
            await line.open(self.run / "control.sock", by="person")
            self.control_line = line
        return await self.control_line.ask(method, params)

    async def attach(self, server: str) -> Line:
        """A new agent connection that shows `server` alone, with the server's own tool names."""
        line = Line()
        await line.open(self.run / "agents" / "default" / "mcp.sock")
        line.send({"method": "notifications/dev.mcpd/attach", "params": {"server": server}})
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "fault-runner", "version": "1"},
        }
        await line.ask("initialize", hello)
        line.send({"method": "notifications/initialized"})
        return line

    async def agent(self, client: str, server: str) -> Line:
        if (client, server) not in self.agents:
            self.agents[client, server] = await self.attach(server)
        return self.agents[client, server]

    # -- servers ---------------------------------------------------------------------------------
    async def add_server(self, name: str, cfg: dict[str, Any]) -> None:
        if cfg.get("oauth"):
            raise NotSupported("oauth")
        text = tomli_w.dumps({"schema": 1, **definition(cfg)})
        (self.config / "servers.d" / f"{name}.toml").write_text(text, "utf-8")
        got = await self.control("daemon.reload", {})
        if name not in [*got["added"], *got["changed"]]:
            # Known from before, so nothing connects it by itself (D5).
            task = asyncio.ensure_future(self.demand(name))
            self.demands.add(task)
            task.add_done_callback(self.demands.discard)

    async def demand(self, name: str) -> None:
        with contextlib.suppress(CallFailed):
            await self.control("servers.test", {"server": name})

    async def remove_server(self, name: str) -> None:
        for key in [key for key in self.agents if key[1] == name]:
            self.agents.pop(key).close()
        pid = (await self.server(name))["status"]["pid"]
        await self.control("servers.remove", {"server": name})
        while pid and alive(pid):  # noqa: ASYNC110 - nothing announces the end of another's child
            await asyncio.sleep(0.05)

    async def server(self, name: str) -> dict[str, Any]:
        return await self.control("servers.get", {"server": name})

    async def status(self, name: str) -> str:
        status = (await self.server(name))["status"]
        if status["state"] == "idle":
            # A server that was just added is idle until its first connection begins (D5).
            return "connected" if status["last_success"] else "connecting"
        return STATES[status["state"]]

    async def reason(self, name: str) -> str:
        status = (await self.server(name))["status"]
        return f"{status['state']} {status['reason']}: {status['error']}"

    # -- what an agent does ----------------------------------------------------------------------
    async def listing(self, name: str, method: str, member: str, client: str) -> list[dict[str, Any]]:
        line = await self.agent(client, name)
        out: list[dict[str, Any]] = []
        cursor = None
        while True:
            page = await line.ask(method, {} if cursor is None else {"cursor": cursor})
            out += page[member]
            cursor = page.get("nextCursor")
            if cursor is None:
                return out

    async def list_tools(self, name: str, client: str = "a") -> list[dict[str, Any]]:
        return await self.listing(name, "tools/list", "tools", client)

    async def list_other(self, name: str, what: str) -> list[dict[str, Any]]:
        method = "resources/templates/list" if what == "resource_templates" else f"{what}/list"
        member = "resourceTemplates" if what == "resource_templates" else what
        return await self.listing(name, method, member, "a")

    async def call(
        self, name: str, tool: str, args: dict[str, Any], timeout: float | None = None, client: str = "a"
    ) -> dict[str, Any]:
        line = await self.agent(client, name)
        result = await line.call(tool, args, timeout or 3600)
        kind = (result.get("_meta") or {}).get("dev.mcpd/kind")
        if result.get("isError") and kind is not None:
            raise CallFailed(f"{kind}: {json.dumps(result.get('content'), ensure_ascii=False)}")
        return result

    # -- steps about the daemon itself -------------------------------------------------------------
    async def daemon(self, op: str, within: float = 10, **kw: Any) -> dict[str, Any]:
        step = getattr(self, f"op_{op}", None)
        if step is None:
            raise NotSupported(op)
        got: dict[str, Any] = await step(within=within, **kw)
        return got

    async def op_start(self, within: float, **kw: Any) -> dict[str, Any]:
        return await self.launch(within, **kw)

    async def op_start_second(self, within: float) -> dict[str, Any]:
        second, log = await self.spawn(None)
        try:
            return self.ended(await asyncio.wait_for(second.wait(), within), log)
        except TimeoutError:
            second.kill()
            return {"ok": True, "text": tail(log)}

    async def op_stop(self, within: float) -> dict[str, Any]:
        assert self.proc is not None
        self.proc.send_signal(signal.SIGTERM)
        return {"ok": await asyncio.wait_for(self.proc.wait(), within) == 0}

    async def op_signal(self, within: float, **kw: Any) -> dict[str, Any]:
        assert self.proc is not None
        self.proc.send_signal(getattr(signal, kw["signal"]))
        if kw["signal"] == "SIGKILL":
            await asyncio.wait_for(self.proc.wait(), within)
            self.forget_lines()
        return {}

    async def op_plant(self, within: float, what: str, fresh: bool = False) -> dict[str, Any]:
        agents = self.run / "agents" / "default"
        for folder in (self.run, agents.parent, agents):
            folder.mkdir(mode=0o700, exist_ok=True)
        target = self.run / "control.sock"
        if what == "regular_file":
            target.write_text("not a socket\n")
            self.planted = (target, target.stat().st_ino)
            return {}
        for path in (target, agents / "mcp.sock"):
            with socket.socket(socket.AF_UNIX) as stale:
                stale.bind(str(path))
                stale.listen()
        return {}

    async def op_planted_intact(self, within: float) -> dict[str, Any]:
        path, inode = self.planted
        ok = path.is_file() and path.stat().st_ino == inode and path.read_text() == "not a socket\n"
        return {"ok": ok}

    async def op_socket_alive(self, within: float) -> dict[str, Any]:
        fresh = Line()
        await fresh.open(self.run / "control.sock")
        await fresh.ask("daemon.status", {})
        fresh.close()
        (await self.attach("s")).close()
        return {"ok": True}

    async def op_modes(self, within: float) -> dict[str, Any]:
        sockets = [self.run / "control.sock", self.run / "agents" / "default" / "mcp.sock"]
        folders = [self.run, self.run / "agents", self.run / "agents" / "default"]
        return {"mode": {"socket": modes(sockets), "dir": modes(folders)}}

    async def op_raw(self, within: float, **kw: Any) -> dict[str, Any]:
        """The bytes go to both kinds of socket; the control socket's answer is returned."""
        got = {}
        for path in (self.run / "agents" / "default" / "mcp.sock", self.run / "control.sock"):
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(kw["bytes"].encode())
            try:
                data = await asyncio.wait_for(reader.read(65536), 0.5)
                got = {"reply": data.decode("utf-8", "replace"), "closed": not data}
            except TimeoutError:
                got = {"reply": "", "closed": False}
            except ConnectionError:
                got = {"reply": "", "closed": True}
            writer.close()
        return got

    async def op_client_call_and_die(
        self, within: float, client: str, tool: str, args: dict[str, Any]
    ) -> dict[str, Any]:
        (await self.open_call(tool, args, within)).close()
        return {}

    async def op_background_call(self, within: float, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        self.loose.append(await self.open_call(tool, args, within))
        return {}

    async def open_call(self, tool: str, args: dict[str, Any], within: float) -> Line:
        """A call on a connection of its own that has reached the server, by the server's journal."""
        line = await self.attach("s")
        before = self.calls_seen(tool)
        line.request("tools/call", {"name": tool, "arguments": args})
        end = time.monotonic() + within
        while self.calls_seen(tool) == before and time.monotonic() < end:  # noqa: ASYNC110 - a file says it
            await asyncio.sleep(0.02)
        return line

    def calls_seen(self, tool: str) -> int:
        journal = self.tmp / "s.journal"
        # What follows the last line end is still being written.
        rows = [json.loads(row) for row in journal.read_text().split("\n")[:-1]] if journal.exists() else []
        return sum(1 for row in rows if row.get("method") == "tools/call" and row.get("name") == tool)

    async def op_servers(self, within: float) -> dict[str, Any]:
        servers = (await self.control("servers.list", {}))["servers"]
        return {"count": len(servers), "text": json.dumps(servers, ensure_ascii=False)}

    async def op_reload(self, within: float) -> dict[str, Any]:
        try:
            return {"ok": True, "text": json.dumps(await self.control("daemon.reload", {}))}
        except CallFailed as error:
            return {"ok": False, "text": str(error)}

    async def op_write_config(self, within: float, raw: str) -> dict[str, Any]:
        path = self.config / "config.toml"
        self.kept_config = path.read_bytes() if path.exists() else None
        path.write_text(raw, "utf-8")
        return {}

    async def op_restore_config(self, within: float) -> dict[str, Any]:
        path = self.config / "config.toml"
        if self.kept_config is None:
            path.unlink()
        else:
            path.write_bytes(self.kept_config)
        return {}


def tail(log: Path) -> str:
    return log.read_text("utf-8", "replace")[-2000:]


def modes(paths: list[Path]) -> str:
    """One mode when all have the same, else each."""
    found = sorted({f"{stat.S_IMODE(path.stat().st_mode):04o}" for path in paths})
    return "/".join(found)


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as row:
            return row.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
