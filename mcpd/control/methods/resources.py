"""`resources.*`: every resource and template of every server, as the operator sees and reads them."""

from __future__ import annotations

from time import perf_counter

import msgspec
import trio

from mcpd import calls, listing
from mcpd.api.resources import ListResources, ReadResource, ResourceInfo, ResourceRead, Resources
from mcpd.catalog import qualify
from mcpd.catalog.resource import Resource, Template
from mcpd.catalog.wrappers import READ_RESOURCE
from mcpd.control.methods import lists
from mcpd.control.operator import Operator
from mcpd.entries import Listed
from mcpd.errors import Failure
from mcpd.protocol.jsonrpc import quoted
from mcpd.rows import Row
from mcpd.upstream.ticket import Ticket
from mcpd.views import View

METHOD = "resources/read"


async def list_resources(operator: Operator, params: ListResources) -> Resources:
    broker = operator.broker
    view = await lists.view(broker, params.server, params.agent, "resources")
    entries = [
        entry
        for kind in ("resources", "templates")
        for entry in view.listing(kind).entries
        if params.server in ("", entry.upstream.name)
    ]
    page, following = lists.page(entries, params.cursor, _mark)
    missing = lists.left_out(broker, (), params.server, params.agent)
    return Resources(
        resources=tuple(_info(view, entry) for entry in page),
        next_cursor=following,
        left_out=() if params.cursor else missing,
    )


def _mark(entry: Listed) -> str:
    """A template may look like a resource's URI."""
    return f"{'template' if isinstance(entry.thing, Template) else 'resource'} {entry.name}"


class _Words(msgspec.Struct, rename="camel"):
    """What a list says of a resource or template; the catalogue's readers have seen to the types."""

    name: str = ""
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int | None = None


def _info(view: View, entry: Listed) -> ResourceInfo:
    thing = entry.thing
    assert isinstance(thing, Resource | Template)
    row = view.native(entry.upstream.name, READ_RESOURCE, METHOD)
    assert row is not None, "what is listed may be read"
    words = msgspec.json.decode(b"{" + thing.rest + b"}", type=_Words)
    return ResourceInfo(
        server=entry.upstream.name,
        uri=thing.uri if isinstance(thing, Resource) else thing.uri_template,
        name=entry.name,
        template=isinstance(thing, Template),
        label=words.name,
        title=words.title,
        description=lists.brief(words.description),
        mime_type=words.mime_type,
        size=words.size,
        risk=row.ruling.risk,
        approval=row.ruling.approval,
    )


async def read(operator: Operator, params: ReadResource) -> ResourceRead:
    """The path of every agent's read (a01). `timeout` counts the wait for the server too."""
    began = perf_counter()
    row, own = await _find(operator, params)
    limit = lists.limit(params.timeout, params.patience)
    caller = msgspec.structs.replace(operator.caller, patience=params.patience)
    with trio.move_on_after(limit):
        result = await calls.call(
            operator.broker, caller, row, b'"uri":' + quoted(own), b"", Ticket(), operator.asker
        )
        return ResourceRead(
            server=row.upstream.name,
            uri=own,
            result=msgspec.Raw(result.text),
            cut=result.cut,
            duration=perf_counter() - began,
        )
    raise lists.late(row.upstream.name, limit)


async def _find(operator: Operator, params: ReadResource) -> tuple[Row, str]:
    """Raises Failure `no_such_server`, `no_such_resource`, and what `reach` raises."""
    broker = operator.broker
    if params.server:
        server, own = params.server, qualify.unqualified(params.server, params.uri)
    else:
        found = qualify.split(params.uri)
        if found is None:
            raise Failure(
                "no_such_resource",
                f'no resource is named "{params.uri[:200]}"',
                hint="mcpctl resources lists them; with --server URIs are the server's own",
                uri=params.uri[:2000],
            )
        server, own = found
    await lists.ready(broker.fleet.find(server), "resources")
    uri = qualify.qualified(server, own)
    return await listing.find_resource(broker, listing.OPERATOR_KEY, uri, METHOD)
