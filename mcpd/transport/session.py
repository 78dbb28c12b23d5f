"""What stands in the headers of every message to one server over HTTP (3.2, 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mcpd.catalog.mirror import Mirror, fitting, mirrored
from mcpd.protocol import headers
from mcpd.protocol.jsonrpc import ABSENT, Message
from mcpd.protocol.revisions import Revision
from mcpd.protocol.shapes import Meta, read_result

MESSAGE = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
STREAM = {"Accept": "text/event-stream"}

#: Bytes of a session's id.
LONGEST = 1024


class _Params(msgspec.Struct, frozen=True):
    """What headers repeat of a request (3.3)."""

    name: Any = None
    uri: Any = None
    task: Any = msgspec.field(default=None, name="taskId")
    arguments: msgspec.Raw = ABSENT
    meta: Meta = msgspec.field(default_factory=Meta, name="_meta")

    def named(self, member: str) -> Any:
        return {"name": self.name, "uri": self.uri, "taskId": self.task}.get(member)


class Session:
    """Revision and session of one connection. Mutable: both are known in its course only."""

    def __init__(self, mirrors: Callable[[str], tuple[Mirror, ...]], remark: Callable[[str], None]) -> None:
        """`mirrors`: what a call of the tool repeats in headers."""
        self._mirrors = mirrors
        self._remark = remark
        self.revision: Revision | None = None
        self.id = ""
        """Empty where the server has given none."""
        self._offered = ""

    @property
    def stateless(self) -> bool:
        return self.revision is not None and self.revision.stateless

    def offer(self, offered: str) -> None:
        """The answer to `initialize` begins, and names a session."""
        usable = headers.is_visible(offered) and len(offered) <= LONGEST
        self._offered = offered if usable else ""
        if offered and not usable:
            self._remark("the server's session id is not used: it is no visible ASCII, or very long")

    def adopt(self) -> None:
        """`initialize` has succeeded; nothing else opens a session (3.2)."""
        self.id = self._offered

    def standing(self) -> dict[str, str]:
        """The headers of everything after the handshake; none for the handshake itself."""
        found = {}
        if self.id:
            found[headers.SESSION] = self.id
        if self.revision is not None and self.revision.named:
            found[headers.REVISION] = self.revision.name
        return found

    def resuming(self, last: bytes) -> dict[str, str]:
        """The headers of a GET for a stream; `last`: the event after which it goes on, if any."""
        found = {**STREAM, **self.standing()}
        if last:
            found[headers.LAST_EVENT] = last.decode("utf-8", "replace")
        return found

    def heading(self, message: Message) -> dict[str, str]:
        """The headers of a message. Raises Unmirrorable for a name or argument that is too long for one."""
        if message.method == "initialize":
            return MESSAGE
        if self.revision is None and not message.method and self._offered:
            # What a server asks before its answer to `initialize` is answered in the session to come.
            return {**MESSAGE, headers.SESSION: self._offered}
        if self.revision is not None and not self.revision.stateless:
            return {**MESSAGE, **self.standing()}
        return {**MESSAGE, **self.standing(), **self._repeated(message)}

    def _repeated(self, message: Message) -> dict[str, str]:
        found = {headers.METHOD: message.method} if message.method else {}
        params = read_result(bytes(message.params), _Params) or _Params()
        if isinstance(params.meta.revision, str):
            found[headers.REVISION] = params.meta.revision
        member = headers.NAMED_BY.get(message.method, "")
        name = params.named(member)
        if isinstance(name, str):
            found[headers.NAME] = fitting(headers.encode(name), f"`{member}`")
            if message.method == "tools/call":
                found |= mirrored(self._mirrors(name), bytes(params.arguments))
        return found
