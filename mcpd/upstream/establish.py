"""The way to a connection whose catalogue is known, under one deadline (c12), and what may come between."""

from __future__ import annotations

from typing import NamedTuple

import trio

from mcpd.catalog.tool import Catalog
from mcpd.errors import Failure, ServerError
from mcpd.transport.base import ConnectFailed, ConnectionLost, Ending, Unanswered
from mcpd.upstream.attempt import Attempt
from mcpd.upstream.connection import Connection
from mcpd.upstream.keeper import Keeper
from mcpd.upstream.link import Link
from mcpd.upstream.remote import Remote


class Established(NamedTuple):
    """A server that has told what it offers."""

    link: Link
    connection: Connection
    catalog: Catalog
    opened_in: float
    """Seconds up to the settled revision; the catalogue not included."""


async def establish(attempt: Attempt | Remote, keeper: Keeper) -> Established:
    """Open and fetch the catalogue, within the attempt's limit. Raises ConnectFailed."""
    began = trio.current_time()
    link: Link | None = None
    try:
        with trio.fail_after(attempt.limit):
            link, connection = await attempt.open(keeper.era_now())
            opened_in = trio.current_time() - began
            if attempt.server.protocol in ("auto", "legacy"):
                keeper.settle_era(attempt.verdict)
            return Established(link, connection, await keeper.fetch(connection), opened_in)
    except trio.TooSlowError:
        raise ConnectFailed("not_responding", attempt.late) from None
    except ConnectionLost as e:
        assert link is not None, "nothing else is asked before there is a link"
        ending = link.ending if link.over.is_set() else Ending("failed", e.message or "the connection ended")
        words = f"{ending.message} while its tools were listed"
        raise ConnectFailed(ending.reason, words, lasting=ending.lasting) from None
    except ServerError as e:
        raise ConnectFailed("bad_answer", f"tools/list failed: {e.message[:300]}") from None
    except Unanswered as e:
        lasting = e.reason in ("needs_auth", "access_denied")
        raise ConnectFailed(e.reason, f"tools/list failed: {e.message}", lasting=lasting) from None
    except Failure as e:
        if e.kind == "timed_out":
            raise ConnectFailed("not_responding", f"tools/list failed: {e.message}") from None
        raise ConnectFailed("bad_answer", e.message) from None
