"""`hello` and `daemon.*` (`daemon.describe` lies with the table it describes)."""

from __future__ import annotations

import os
from typing import Any

from msgspec.structs import replace

from mcpd import __version__, admitting, applying, health
from mcpd.api import API_MAX, API_MIN, Empty, Params
from mcpd.api.daemon import Applied, DaemonStatus, Hello, HelloResult, Reloaded
from mcpd.control.operator import Operator
from mcpd.errors import Failure

#: What a client may ask for by name; only additions. A feature that is missing here is answered with false.
FEATURES = ("describe", "events", "tools.call")


async def hello(operator: Operator, params: Hello) -> HelloResult:
    """Settle the API number. Raises Failure `api_mismatch`, which lists window and features all the same."""
    features = dict.fromkeys(params.want + params.need, False) | dict.fromkeys(FEATURES, True)
    low, high = params.api
    offer: dict[str, Any] = {"api": [API_MIN, API_MAX], "features": features}
    if high < API_MIN:
        message = f"the client is too old: it speaks the api up to {high}, this daemon from {API_MIN} on"
        raise Failure("api_mismatch", message, hint="update the client", **offer)
    if low > API_MAX:
        message = f"the daemon is too old: it speaks the api up to {API_MAX}, the client from {low} on"
        raise Failure("api_mismatch", message, hint="restart the daemon with the new version", **offer)
    missing = [name for name in params.need if not features[name]]
    if missing:
        raise Failure("api_mismatch", f"this daemon cannot do: {', '.join(missing)}", **offer)
    broker = operator.broker
    return HelloResult(
        version=__version__,
        api=min(high, API_MAX),
        features=features,
        role="control",
        instance=broker.instance,
        pid=os.getpid(),
        started=broker.started,
    )


async def status(operator: Operator, params: Params) -> DaemonStatus:
    return health.daemon_status(operator.broker)


async def reload(operator: Operator, params: Params) -> Reloaded:
    """Raises Failure `config_invalid`, `not_writable`."""
    done = await applying.reload(operator.broker)
    gone = await admitting.forget_gone(operator.broker, operator.caller)
    return replace(done, applied=done.applied + tuple(Applied(each.place, each.what) for each in gone))


async def stop(operator: Operator, params: Params) -> Empty:
    """Answers first: the daemon takes its connections down only after this task has gone on."""
    operator.broker.stop.set()
    return Empty()
