"""Who a request is made and recorded for."""

from __future__ import annotations

import msgspec

#: The agent that every process may be which names none.
DEFAULT_AGENT = "default"


class Caller(msgspec.Struct, frozen=True, cache_hash=True):
    """Who a request is recorded under."""

    session: str
    agent: str
    """Empty for the operator."""
    pid: int
    exe: str
    proven: bool = False
    """It has shown the agent's token, so that all who have are one, also of the default agent."""
    cwd: str = ""
    patience: float | None = None
    """Seconds that it waits for a person; None for the setting `approval_wait`."""

    @property
    def owner(self) -> str:
        """Whose its tasks are: the agent's, or one session's of the agent that every program may be."""
        anybody = self.agent in ("", DEFAULT_AGENT) and not self.proven
        return self.session if anybody else f"agent {self.agent}"


#: What mcpd does by itself is nobody's.
NOBODY = Caller("", "", 0, "")
