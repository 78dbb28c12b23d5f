"""`completion/complete` (5.5), decided as what it completes (a01)."""

from __future__ import annotations

from mcpd import calls
from mcpd.agents.methods import prompts, resources
from mcpd.agents.methods.request import Request
from mcpd.agents.session import Session
from mcpd.catalog import completion, content
from mcpd.listing import view_now
from mcpd.protocol import dialect
from mcpd.protocol.jsonrpc import check_arguments, quoted
from mcpd.protocol.shapes import CompleteParams, Context, PromptReference, read_params

METHOD = "completion/complete"


async def complete(session: Session, request: Request) -> bytes:
    params = read_params(request.params, CompleteParams)
    ref = params.ref
    if isinstance(ref, PromptReference):
        row, own = await prompts.find(session, request, ref.name, METHOD)
        meant = b'"ref":{"type":"ref/prompt","name":' + quoted(own) + b"}"
    else:
        row, own = await resources.find(session, request, ref.uri, METHOD)
        meant = b'"ref":{"type":"ref/resource","uri":' + quoted(own) + b"}"
    view = view_now(session.broker, session.key)
    offer = view.offers.get(row.upstream.name)
    if offer is not None and "completions" not in offer.catalog.features:
        # Completions are declared for all servers together; this one has nothing to suggest.
        return dialect.own_result(completion.NOTHING, request.stateless)
    argument = params.argument
    context = b"" if bytes(params.context) == b"null" else bytes(params.context)
    if context:
        check_arguments(context)
        read_params(context, Context)
    members = b",".join(
        (
            meant,
            b'"argument":{"name":' + quoted(argument.name) + b',"value":' + quoted(argument.value) + b"}",
            *((b'"context":' + context,) if context else ()),
        )
    )
    result = await calls.call(
        session.broker, session.caller, row, members, bytes(params.meta), request.ticket, request
    )
    return content.dress(result, stateless=request.stateless)
