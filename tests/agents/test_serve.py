"""Connections of agents, and what their sessions are to the rest of the daemon."""

from __future__ import annotations

import pytest

from tests.agents.world import staged
from tests.conftest import Home


async def test_what_fails_beside_its_requests_ends_one_session_alone(home: Home, real_clock: None) -> None:
    async def fails() -> None:
        raise RuntimeError("of mcpd's own")

    async with staged(home) as stage:
        one = await stage.attach()
        session = stage.session
        other = await stage.attach()
        session._nursery.start_soon(fails)
        with pytest.raises(EOFError):
            await one.read_line()
        assert await other.ask("ping") == {}
        await stage.until("sessions", lambda: len(stage.broker.sessions) == 1)
