"""Tools of mcpd's own that stand for a server's resources and prompts, for agents that only know tools.

They follow what the server advertises, without a switch (a10, a13 to a16). Listings come from the
catalogue; a read and a prompt become the request that they stand for.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from mcpd.catalog import names
from mcpd.catalog.prompt import Prompt
from mcpd.catalog.qualify import qualified, unqualified
from mcpd.catalog.resource import Resource, Template
from mcpd.catalog.tool import Annotations, Catalog, Tool
from mcpd.errors import Failure
from mcpd.protocol.jsonrpc import words

T = TypeVar("T")

#: Characters of a server's description in a listing; the entry has it whole.
_DESCRIPTION: Final = 500


def _tool(name: str, wraps: str, title: str, description: str, schema: bytes) -> Tool:
    texts = msgspec.json.encode({"title": title, "description": description})[1:-1]
    rest = texts + b',"inputSchema":' + schema + b',"annotations":{"readOnlyHint":true}'
    return Tool(name, rest, Annotations(read_only_hint=True), wraps=wraps)


_LIST_RESOURCES: Final = _tool(
    "list_resources",
    "resources/list",
    "List resources",
    "Lists the resources that this server offers: the URI, name, type, size and description of each, and"
    " templates from which further URIs can be made.",
    b'{"type":"object","properties":{}}',
)
#: What reading and watching any resource of a server is decided as, also where it has a tool of that name.
READ_RESOURCE: Final = _tool(
    "read_resource",
    "resources/read",
    "Read a resource",
    "Reads one of this server's resources.",
    b'{"type":"object","properties":{"uri":{"type":"string","description":"The URI, as list_resources or'
    b' a link in a result has it, or made from a template"}},"required":["uri"]}',
)
_LIST_PROMPTS: Final = _tool(
    "list_prompts",
    "prompts/list",
    "List prompts",
    "Lists the prompt templates that this server offers, with their arguments; those with * are required.",
    b'{"type":"object","properties":{}}',
)
#: What getting any prompt of a server is decided as.
GET_PROMPT: Final = _tool(
    "get_prompt",
    "prompts/get",
    "Get a prompt",
    "Fills in one of this server's prompt templates and returns its messages as text.",
    b'{"type":"object","properties":{"name":{"type":"string","description":"The name, as list_prompts has'
    b' it"},"arguments":{"type":"object","description":"The values of its arguments by their names",'
    b'"additionalProperties":{"type":"string"}}},"required":["name"]}',
)


def wrappers(catalog: Catalog) -> tuple[Tool, ...]:
    """The wrapper tools of a server. One of the server's own tools wins over a wrapper of its name (a12)."""
    found: tuple[Tool, ...] = ()
    if "resources" in catalog.features:
        found += (_LIST_RESOURCES, READ_RESOURCE)
    if "prompts" in catalog.features:
        found += (_LIST_PROMPTS, GET_PROMPT)
    own = {tool.name for tool in catalog.tools} if found else set()
    return tuple(tool for tool in found if tool.name not in own)


# ------------------------------------------------------------------- requests


class _NoArguments(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _ReadArguments(msgspec.Struct, forbid_unknown_fields=True):
    uri: str


class _GetArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: msgspec.Raw = msgspec.Raw()


_NONE: Final = msgspec.json.Decoder(_NoArguments)
_READ: Final = msgspec.json.Decoder(_ReadArguments)
_GET: Final = msgspec.json.Decoder(_GetArguments)
_TEXTS: Final = msgspec.json.Decoder(dict[str, str])


def check_listing(arguments: bytes) -> None:
    """Raises Failure `invalid_params` for arguments that a wrapper of a list does not take."""
    _read(_NONE, arguments)


def read_request(arguments: bytes, server: str) -> tuple[str, bytes]:
    """The URI, as the server itself has it, and the params without braces of the resources/read that
    read_resource stands for. Raises Failure `invalid_params`."""
    uri = unqualified(server, _read(_READ, arguments).uri)
    return uri, b'"uri":' + msgspec.json.encode(uri)


def prompt_request(
    arguments: bytes, server: str, prompts: tuple[Prompt, ...], spelling: names.Spelling = "server__tool"
) -> tuple[str, bytes]:
    """The name, as the server itself has it, and the params without braces of the prompts/get that
    get_prompt stands for. `spelling`: that of the agent, which may have seen the exported name.

    What fills the template passes as the same text (b29). Raises Failure `invalid_params`, also for what is
    no text: no server is sent such.
    """
    given = _read(_GET, arguments)
    name = _own_name(given.name, server, prompts, spelling)
    members = b'"name":' + msgspec.json.encode(name)
    filling = bytes(given.arguments)
    if filling in (b"", b"null"):
        return name, members
    try:
        _TEXTS.decode(filling)
    except msgspec.DecodeError as e:
        raise Failure("invalid_params", f"invalid arguments: `arguments` are texts by name: {e}") from None
    return name, members + b',"arguments":' + filling


def _own_name(name: str, server: str, prompts: tuple[Prompt, ...], spelling: names.Spelling) -> str:
    """The server's own name for one that may be exported; a name that it does not list goes on as it is."""
    if any(prompt.name == name for prompt in prompts):
        return name
    exported = (prompt.name for prompt in prompts if names.export(server, prompt.name, spelling) == name)
    return next(exported, name)


def _read(decoder: msgspec.json.Decoder[T], arguments: bytes) -> T:
    try:
        return decoder.decode(arguments or b"{}")
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Failure("invalid_params", f"invalid arguments: {error}") from None


# ------------------------------------------------------------------- listings


class _Facts(msgspec.Struct, rename="camel"):
    """What a listing says of an entry; the catalogue's readers have seen to the types."""

    name: str = ""
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int | None = None


class _Named(msgspec.Struct):
    name: str
    description: str = ""


class _Arguments(msgspec.Struct):
    arguments: list[_Named] = []


_FACTS: Final = msgspec.json.Decoder(_Facts)
_ARGUMENTS: Final = msgspec.json.Decoder(_Arguments)


def resources_text(catalog: Catalog, server: str = "") -> str:
    """What list_resources says: a line for each resource and template (a15).

    URIs are qualified with `server`, as everywhere in a listing of several servers; with "" they
    are the server's own.
    """
    lines = [_resource_line(one.uri, one, server) for one in catalog.resources] or ["No resources."]
    if catalog.templates:
        lines += ["", "Templates of further URIs (RFC 6570):"]
        lines += [_resource_line(one.uri_template, one, server) for one in catalog.templates]
    return "\n".join(lines)


def prompts_text(catalog: Catalog) -> str:
    """What list_prompts says: a line for each prompt, with `*` on the arguments that are required, and one
    for each argument that is described (a15)."""
    return "\n".join(map(_prompt_lines, catalog.prompts)) or "No prompts."


def _resource_line(uri: str, entry: Resource | Template, server: str) -> str:
    facts = _FACTS.decode(b"{" + entry.rest + b"}")
    size = "" if facts.size is None else f"{facts.size} bytes"
    kind = ", ".join(filter(None, (words(facts.mime_type, 100), size)))
    shown = qualified(server, uri) if server else uri
    return f"{shown} - {_name(facts)}{f' ({kind})' if kind else ''}{_described(facts.description)}"


def _prompt_lines(prompt: Prompt) -> str:
    text = b"{" + prompt.rest + b"}"
    facts = _FACTS.decode(text)
    marked = {one.name: words(one.name) + "*" * one.required for one in prompt.arguments}
    title = f" - {words(facts.title)}" if facts.title else ""
    lines = [f"{prompt.name}({', '.join(marked.values())}){title}{_described(facts.description)}"]
    lines += [
        f"  {marked[one.name]}{_described(one.description)}"
        for one in _ARGUMENTS.decode(text).arguments
        if one.description
    ]
    return "\n".join(lines)


def _name(facts: _Facts) -> str:
    name, title = words(facts.name), words(facts.title)
    return f"{title} [{name}]" if title and title != name else name


def _described(text: str) -> str:
    if not text:
        return ""
    return ": " + words(text, _DESCRIPTION) + ("..." if len(text) > _DESCRIPTION else "")
