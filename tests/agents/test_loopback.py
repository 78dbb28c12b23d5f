"""The kernel tells whose the other end of a loopback connection is."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator

import pytest

from mcpd.agents import loopback
from mcpd.agents.identity import Peer


@pytest.fixture(params=[(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client's socket and what was accepted of it."""
    family, host = request.param
    with socket.socket(family) as listener, socket.socket(family) as client:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip("needs IPv6")
        listener.listen()
        client.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            yield client, accepted


async def test_owner_and_process(pair: tuple[socket.socket, socket.socket], real_clock: None) -> None:
    client, accepted = pair
    owner = loopback.owner_of(accepted)
    if owner is None:
        pytest.skip("the kernel has no sock_diag here")
    assert owner == (os.getuid(), os.fstat(client.fileno()).st_ino)
    peer = await loopback.peer_of(owner.inode)
    assert (peer.pid, peer.cwd) == (os.getpid(), os.getcwd())
    assert peer.exe == os.path.realpath(sys.executable)


async def test_who_is_gone_is_not_known(real_clock: None) -> None:
    with socket.socket() as alone:
        assert loopback.owner_of(alone) is None
    assert await loopback.peer_of(0) == Peer(0, "", "")
    assert await loopback.peer_of(2**40) == Peer(0, "", "")
