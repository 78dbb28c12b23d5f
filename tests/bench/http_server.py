"""A Streamable HTTP server on loopback, the load target of `http_remote.py`: as cheap as Python allows.

    http_server.py    (prints its port)

One thread, one epoll, one write an answer; the tools are those of `../shared/bench/mcp_server.py`. The
path says how it speaks: `/json` and `/events` are 2025-11-25 with a session, answered by a JSON body or
by a stream of one event; `/stateless` is 2026-07-28. It checks what makes them differ: session, revision,
the method's header.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import sys
from types import SimpleNamespace

import mcp_server

READ = 256 * 1024
SESSION = b"bench-0001"
STATELESS = "2026-07-28"

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)
_SESSION = re.compile(rb"\r\nmcp-session-id: *([^\r]+)", re.I)
_REVISION = re.compile(rb"\r\nmcp-protocol-version: *([^\r]+)", re.I)
_METHOD = re.compile(rb"\r\nmcp-method: *([^\r]+)", re.I)

_DISCOVERED = {
    "supportedVersions": [STATELESS],
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "bench", "version": "1"},
    "ttlMs": 3_600_000,
    "cacheScope": "public",
}


class Stateless(mcp_server.Server):  # type: ignore[misc]
    """The same tools by the words of 2026-07-28."""

    def reply_raw(self, ident: bytes, body: bytes) -> None:
        super().reply_raw(ident, body[:-1] + b',"resultType":"complete"}')

    def list_tools(self, ident: bytes, cursor: str | None) -> None:
        tools = {"tools": self.tools, "ttlMs": 3_600_000, "cacheScope": "public"}
        self.reply(ident, tools)

    def line(self, raw: bytes) -> None:
        if b'"server/discover"' in raw:
            ident = re.search(rb'"id": *("[^"]*"|\d+)', raw)
            self.reply(ident[1] if ident else b"null", _DISCOVERED)
        else:
            super().line(raw)


def answer(status: bytes, body: bytes = b"", fields: bytes = b"") -> bytes:
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, fields, len(body), body)


def as_json(body: bytes, fields: bytes) -> bytes:
    return answer(b"200 OK", body, b"Content-Type: application/json\r\n" + fields)


def as_event(body: bytes, fields: bytes) -> bytes:
    event = b"event: message\ndata: " + body + b"\n\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
    return b"%b%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (head, fields, len(event), event)


class Web:
    def __init__(self) -> None:
        options = SimpleNamespace(tools=0, schema_bytes=700, page=0, name="bench")
        plain, stateless = mcp_server.Server(options), Stateless(options)
        self._ways = {
            b"/json": (plain, as_json),
            b"/events": (plain, as_event),
            b"/stateless": (stateless, as_json),
        }

    def answered(self, head: bytes, body: bytes) -> bytes:
        """What one request is answered with."""
        verb, path, _ = head.split(b" ", 2)
        if path not in self._ways:
            return answer(b"404 Not Found")
        server, write = self._ways[path]
        if verb != b"POST":
            return answer(b"200 OK") if verb == b"DELETE" else answer(b"405 Method Not Allowed")
        fields = b""
        if isinstance(server, Stateless):
            revision, method = _REVISION.search(head), _METHOD.search(head)
            if revision is None or revision[1] != STATELESS.encode() or method is None:
                return answer(b"400 Bad Request", b"2026-07-28 only", b"Content-Type: text/plain\r\n")
        elif b'"method":"initialize"' in body or b'"method": "initialize"' in body:
            fields = b"Mcp-Session-Id: " + SESSION + b"\r\n"
        else:
            session = _SESSION.search(head)
            if session is None or session[1] != SESSION:
                return answer(b"404 Not Found")
        server.line(body)
        if not server.out:
            return answer(b"202 Accepted")
        said = server.out[0][:-1]
        server.out.clear()
        return write(said, fields)


class Visitor:
    """One connection: what is read and not yet answered, and what is answered and not yet taken."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.read = b""
        self.unsent = b""

    def requests(self, web: Web) -> None:
        """Answer every request that is there whole; one that names no length has no body."""
        while (end := self.read.find(b"\r\n\r\n")) >= 0:
            head = self.read[:end]
            found = _LENGTH.search(head)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(self.read) < whole:
                return
            body, self.read = self.read[end + 4 : whole], self.read[whole:]
            self.unsent += web.answered(head, body)

    def send(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.unsent = self.unsent[self.sock.send(self.unsent) :]


def serve(listener: socket.socket) -> None:
    web, epoll = Web(), select.epoll()
    epoll.register(listener, select.EPOLLIN)
    visitors: dict[int, Visitor] = {}
    while True:
        for fd, _ in epoll.poll():
            if fd == listener.fileno():
                sock, _ = listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                visitors[sock.fileno()] = Visitor(sock)
                epoll.register(sock, select.EPOLLIN)
                continue
            visitor = visitors[fd]
            try:
                if not visitor.unsent:
                    data = visitor.sock.recv(READ)
                    if not data:
                        raise ConnectionResetError
                    visitor.read += data
                    visitor.requests(web)
                visitor.send()
            except ConnectionError:
                epoll.unregister(fd)
                visitors.pop(fd).sock.close()
            else:
                epoll.modify(fd, select.EPOLLOUT if visitor.unsent else select.EPOLLIN)


def main() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        print(listener.getsockname()[1], flush=True)
        try:
            serve(listener)
        except KeyboardInterrupt:
            sys.exit(0)


if __name__ == "__main__":
    main()
