"""What a caller is told where a server cannot serve: the next step has to help (b26)."""

from __future__ import annotations

import pytest

from mcpd.api.status import Status
from mcpd.config.spec import Faulty, Server
from mcpd.upstream import refusals

SERVER = Server(name="fs", source="/c/fs.toml", command="gone")
FAULTY = Faulty(name="fs", source="/c/fs.toml", reason="bad_definition", message="comand: unknown field")


@pytest.mark.parametrize(
    ("definition", "status", "step"),
    [
        (SERVER, Status(state="failed", reason="exited"), "mcpctl logs fs; mcpctl reconnect fs"),
        (
            SERVER,
            Status(state="failed", reason="command_not_found"),
            "mend it in /c/fs.toml, then: mcpctl reload",
        ),
        (FAULTY, Status(state="failed", reason="bad_definition"), "mcpctl status names what is wrong"),
    ],
)
def test_the_next_step_is_one_that_helps(definition: Server | Faulty, status: Status, step: str) -> None:
    assert refusals.unavailable(definition, status, None, 0.0).hint.startswith(step)
