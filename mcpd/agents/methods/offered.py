"""What a server that is shown alone does not have: its agent was told so, and is refused it (5.1)."""

from __future__ import annotations

from mcpd import listing
from mcpd.agents.methods.request import Handler, Request
from mcpd.agents.session import Session
from mcpd.catalog.tool import Feature
from mcpd.errors import Failure


def offered(feature: Feature, handler: Handler) -> Handler:
    """The handler, where the feature is declared. Of many servers together everything is, and everything is
    of one that is not known yet."""

    async def serve(session: Session, request: Request) -> bytes:
        if session.key.only and feature not in listing.view_now(session.broker, session.key).features:
            raise Failure("unknown_method", f"method not found: {request.message.method}")
        return await handler(session, request)

    return serve
