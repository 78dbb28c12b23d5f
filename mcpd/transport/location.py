"""Where a remote server is reached: one URL, and what the server says about it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import trio

from mcpd.http import Answer, Client
from mcpd.protocol import headers as names
from mcpd.transport import answers

#: Redirects that are followed in a row.
HOPS = 5

#: Seconds for which a server may ask to be left alone before a message is sent to it once more; and for what
#: mcpd itself asks, which has ten seconds in all (c12): what the server says must be heard before.
PATIENCE, OWN_PATIENCE = 30.0, 5.0


class Location:
    """Sends to one URL. A redirect on the same origin is followed with method and body, and remembered; any
    other is an answer like the rest, so that nothing goes to another origin (3.3).

    `own`: the definition's headers; those that belong to the transport are left out.
    """

    def __init__(
        self, client: Client, url: str, own: Mapping[str, str], remark: Callable[[str], None]
    ) -> None:
        self.url = url
        self._client = client
        self._own = {name: value for name, value in own.items() if not names.is_own(name)}
        left_out = ", ".join(sorted(own.keys() - self._own.keys()))
        if left_out:
            remark(f"headers that belong to the transport are left out: {left_out[:200]}")

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        long_lived: bool = False,
        patience: float = PATIENCE,
    ) -> AsyncIterator[Answer]:
        """One request and its answer, as `Client.stream`; raises HttpFailed as that does.

        A POST that is answered by 429 or 503 with a time within `patience` is made once more after it.
        """
        hops, waited = 0, method != "POST"
        everything = {**self._own, **headers}
        while True:
            # Another request may be redirected meanwhile.
            url = self.url
            async with self._client.stream(method, url, everything, body, long_lived=long_lived) as answer:
                there = answers.followed(url, answer.status, answer.headers) if hops < HOPS else ""
                pause = None if waited else answers.pause(answer.status, answer.headers, time.time())
                if not there and (pause is None or pause > patience):
                    yield answer
                    return
            if there:
                self.url = there
                hops += 1
            else:
                waited = True
                await trio.sleep(pause or 0.0)
