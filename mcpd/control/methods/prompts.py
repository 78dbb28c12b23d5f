"""`prompts.*`: every prompt of every server, as the operator sees and gets them."""

from __future__ import annotations

from time import perf_counter

import msgspec
import trio

from mcpd import calls, listing
from mcpd.api.prompts import GetPrompt, GotPrompt, ListPrompts, PromptArgument, PromptInfo, Prompts
from mcpd.broker import Broker
from mcpd.catalog import names
from mcpd.catalog.prompt import Prompt
from mcpd.catalog.wrappers import GET_PROMPT
from mcpd.control.methods import lists
from mcpd.control.operator import Operator
from mcpd.entries import Listed
from mcpd.errors import Failure
from mcpd.protocol.jsonrpc import quoted
from mcpd.rows import Row
from mcpd.upstream.ticket import Ticket
from mcpd.upstream.upstream import Upstream
from mcpd.views import View

METHOD = "prompts/get"


async def list_prompts(operator: Operator, params: ListPrompts) -> Prompts:
    broker = operator.broker
    view = await lists.view(broker, params.server, params.agent, "prompts")
    shown = view.listing("prompts")
    entries = [entry for entry in shown.entries if params.server in ("", entry.upstream.name)]
    page, following = lists.page(entries, params.cursor, lambda entry: entry.name)
    missing = lists.left_out(broker, shown.warnings, params.server, params.agent)
    return Prompts(
        prompts=tuple(_info(view, entry) for entry in page),
        next_cursor=following,
        left_out=() if params.cursor else missing,
    )


class _Argument(msgspec.Struct):
    name: str
    description: str = ""
    required: bool = False


class _Words(msgspec.Struct):
    """What a list says of a prompt; the catalogue's reader has seen to the types."""

    title: str = ""
    description: str = ""
    arguments: list[_Argument] = []


def _info(view: View, entry: Listed) -> PromptInfo:
    prompt = entry.thing
    assert isinstance(prompt, Prompt)
    row = view.native(entry.upstream.name, GET_PROMPT, METHOD)
    assert row is not None, "what is listed may be got"
    words = msgspec.json.decode(b"{" + prompt.rest + b"}", type=_Words)
    return PromptInfo(
        server=entry.upstream.name,
        prompt=prompt.name,
        name=entry.name,
        title=words.title,
        description=lists.brief(words.description),
        arguments=tuple(
            PromptArgument(name=each.name, description=lists.brief(each.description), required=each.required)
            for each in words.arguments
        ),
        risk=row.ruling.risk,
        approval=row.ruling.approval,
    )


async def get(operator: Operator, params: GetPrompt) -> GotPrompt:
    """The path of every agent's request (a01). `timeout` counts the wait for the server too."""
    began = perf_counter()
    row, own = await _find(operator.broker, params)
    limit = lists.limit(params.timeout, params.patience)
    caller = msgspec.structs.replace(operator.caller, patience=params.patience)
    members = b'"name":' + quoted(own)
    if params.arguments:
        members += b',"arguments":' + msgspec.json.encode(params.arguments)
    with trio.move_on_after(limit):
        result = await calls.call(operator.broker, caller, row, members, b"", Ticket(), operator.asker)
        return GotPrompt(
            server=row.upstream.name,
            prompt=own,
            result=msgspec.Raw(result.text),
            duration=perf_counter() - began,
        )
    raise lists.late(row.upstream.name, limit)


async def _find(broker: Broker, wanted: GetPrompt) -> tuple[Row, str]:
    """Raises Failure `invalid_params`, `no_such_server`, `no_such_prompt`, and what `reach` raises."""
    if bool(wanted.name) == bool(wanted.prompt) or bool(wanted.server) != bool(wanted.prompt):
        raise Failure("invalid_params", "cannot find a prompt without either name, or server and prompt")
    for upstream in _candidates(broker, wanted):
        await lists.ready(upstream, "prompts")
    prompts = listing.operator_view_now(broker).prompts
    name = wanted.name
    if not name:
        # Nearly always under this name; a shortened or doubtful one is looked for.
        name = names.export(wanted.server, wanted.prompt)
        if not _is(prompts.get(name), wanted):
            name = next((name for name, found in prompts.items() if _is(found, wanted)), "")
    if name not in prompts:
        what = wanted.name or wanted.prompt
        where = f' of server "{wanted.server}"' if wanted.server else ""
        raise Failure("no_such_prompt", f'cannot find prompt "{what}"{where}', hint="mcpctl prompts")
    return await listing.find_prompt(broker, listing.OPERATOR_KEY, name, METHOD)


def _is(found: tuple[Upstream, Prompt] | None, wanted: GetPrompt) -> bool:
    return found is not None and (found[0].name, found[1].name) == (wanted.server, wanted.prompt)


def _candidates(broker: Broker, wanted: GetPrompt) -> list[Upstream]:
    """The servers whose catalogue must be known before the prompt can be said not to exist."""
    if wanted.server:
        return [broker.fleet.find(wanted.server)]
    return [up for up in broker.fleet.all() if wanted.name.startswith(names.prefix(up.name))]
