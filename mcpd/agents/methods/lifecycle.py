"""How an agent begins: `initialize`, `server/discover`, `ping` (4.1, 4.3, 5.7)."""

from __future__ import annotations

from typing import Any

from mcpd import listing
from mcpd.agents.methods.request import Request
from mcpd.agents.session import Session
from mcpd.protocol import abilities, client, dialect
from mcpd.protocol.revisions import REVISIONS, STATELESS, Revision
from mcpd.protocol.shapes import LIST_CACHING, InitializeParams, NoParams, read_params
from mcpd.views import View


async def initialize(session: Session, request: Request) -> bytes:
    params = read_params(request.params, InitializeParams)
    revision = dialect.answer_revision(params.protocol_version, REVISIONS)
    client.check(params.client_info, params.capabilities, revision)
    # At once: requests may follow without waiting for the answer.
    session.revision = revision
    session.abilities = abilities.read(params.capabilities)
    view = await _known(session, request)
    told = capabilities(view, revision)
    return dialect.initialize_result(revision, told, view.instructions)


async def discover(session: Session, request: Request) -> bytes:
    view = await _known(session, request)
    told = capabilities(view, REVISIONS[STATELESS[-1]])
    members = dialect.discover_members(list(STATELESS), told, view.instructions)
    return dialect.own_result(members + b"," + LIST_CACHING, True)


async def ping(session: Session, request: Request) -> bytes:
    read_params(request.params, NoParams)
    return b"{}"


async def _known(session: Session, request: Request) -> View:
    """The view; of a server that is shown alone with its catalogue, if that comes in time (D5)."""
    view = listing.view_now(session.broker, session.key)
    if view.alone and not view.offers:
        with request.ticket.stoppable():
            view = await listing.view(session.broker, session.key, session.id)
    return view


def capabilities(view: View, revision: Revision) -> dict[str, Any]:
    """What is declared to an agent; nothing else is served.

    Of many servers everything: they come and go while the agent is attached, and it hears of
    capabilities only once. Of one server alone what that one has, so that its host offers just that.
    Log messages are deprecated where there is no handshake, and capabilities can be asked for at any time:
    there they are declared as long as a server has them (5.6).
    That lists may change is always true: what the agent may use can, at any moment.
    """
    changes = {"listChanged": True}
    known = view.features
    told: dict[str, Any] = {}
    if "tools" in known:
        told["tools"] = changes
    if "resources" in known:
        told["resources"] = {"subscribe": True, **changes} if "resources.subscribe" in known else changes
    if "prompts" in known:
        told["prompts"] = changes
    if "completions" in known and revision.completions:
        told["completions"] = {}
    if "logging" in known and (not revision.stateless or view.logs):
        told["logging"] = {}
    if "tasks" in known and revision.tasks:
        told["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    if revision.stateless and view.extensions:
        told["extensions"] = view.extensions
    return told
