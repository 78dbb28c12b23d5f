"""The control API on one page: which methods there are, who may do what, and the firewall.

A method without a row does not exist. `access` says what it can change (n06): nothing (read),
only towards less (narrow), or also towards more (widen).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec

from mcpd.api import (
    API_MAX,
    API_MIN,
    Empty,
    Params,
    agents,
    approvals,
    config,
    daemon,
    endpoint,
    events,
    grants,
    journal,
    passphrase,
    pins,
    policy,
    prompts,
    resources,
    servers,
    tools,
)
from mcpd.control.methods import agents as of_agents
from mcpd.control.methods import approvals as of_approvals
from mcpd.control.methods import config as of_config
from mcpd.control.methods import daemon as of_daemon
from mcpd.control.methods import endpoint as of_endpoint
from mcpd.control.methods import events as of_events
from mcpd.control.methods import grants as of_grants
from mcpd.control.methods import journal as of_journal
from mcpd.control.methods import passphrase as of_passphrase
from mcpd.control.methods import pins as of_pins
from mcpd.control.methods import policy as of_policy
from mcpd.control.methods import prompts as of_prompts
from mcpd.control.methods import resources as of_resources
from mcpd.control.methods import servers as of_servers
from mcpd.control.methods import tools as of_tools
from mcpd.control.operator import Operator
from mcpd.errors import Failure, ServerError
from mcpd.protocol import jsonrpc

log = logging.getLogger(__name__)


class Method(NamedTuple):
    """One row: `handler(operator, params)` with params of the type beside it."""

    handler: Callable[[Operator, Any], Awaitable[msgspec.Struct]]
    params: type[Params]
    result: type[msgspec.Struct]
    access: daemon.Access
    errors: str
    """Kinds beside those of every method, separated by spaces."""
    doc: str


async def _describe(operator: Operator, params: Params) -> daemon.Description:
    return description()


#: What reaches a server has an entry of its own in the journal.
RECORDED = frozenset({"tools.call", "resources.read", "prompts.get"})

#: What any method may answer with; those that widen also with the second line.
EVERYWHERE = ("internal", "invalid_params", "stopping")
WIDENING = ("factor_needed", "refused")

# fmt: off
METHODS: Mapping[str, Method] = {
    "hello": Method(of_daemon.hello, daemon.Hello, daemon.HelloResult, "read", "api_mismatch",
        "Settle the API number and learn what this daemon can do; optional before other methods."),
    "daemon.status": Method(of_daemon.status, Params, daemon.DaemonStatus, "read", "",
        "The daemon, its sockets and files, and what is wrong with them."),
    "daemon.describe": Method(_describe, Params, daemon.Description, "read", "",
        "Every method with the JSON Schema of params and result, its access and its error kinds."),
    "daemon.reload": Method(of_daemon.reload, Params, daemon.Reloaded, "widen", "config_invalid not_writable",
        "Read the files again and apply what changed, also what the watcher holds back."),
    "daemon.stop": Method(of_daemon.stop, Params, Empty, "narrow", "",
        "Stop the daemon and every server process."),

    "servers.list": Method(of_servers.list_servers, Params, servers.Servers, "read", "",
        "Every server with its live state."),
    "servers.get": Method(of_servers.get, servers.ServerName, servers.ServerDetails, "read",
        "no_such_server",
        "One server in full; values of env and headers are masked."),
    "servers.add": Method(of_servers.add, servers.AddServer, servers.ServerInfo, "widen",
        "bad_definition config_invalid name_taken not_writable",
        "Write a definition into the servers' folder and connect once in the background."),
    "servers.remove": Method(of_servers.remove, servers.ServerName, servers.Removed, "narrow",
        "no_such_server not_writable",
        "Stop a server and delete its definition from the servers' folder."),
    "servers.enable": Method(of_servers.enable, servers.ServerName, servers.ServerInfo, "widen",
        "no_such_server not_writable refused",
        "Undo `servers.disable`; `disabled_by` names the file that still says no."),
    "servers.disable": Method(of_servers.disable, servers.ServerName, servers.ServerInfo, "narrow",
        "no_such_server not_writable",
        "Disconnect a server and keep it off, over restarts too, without touching its file."),
    "servers.reconnect": Method(of_servers.reconnect, servers.ServerName, servers.ServerInfo, "narrow",
        "disabled no_such_server refused",
        "End the connection and open a new one now."),
    "servers.trust": Method(of_servers.trust, servers.ServerName, servers.ServerInfo, "widen",
        "disabled needs_login no_such_server not_writable refused unavailable",
        "Believe what a server says of its tools; what it says now, at its present destination."),
    "servers.untrust": Method(of_servers.untrust, servers.ServerName, servers.ServerInfo, "narrow",
        "no_such_server not_writable refused",
        "Believe it no more: every tool of it is of high risk again, unless the user pinned it."),
    "servers.review": Method(of_servers.review, servers.ServerName, servers.Review, "read",
        "bad_definition config_invalid no_such_server",
        "The definition that waits beside the one that was accepted, for `servers.accept`."),
    "servers.accept": Method(of_servers.accept, servers.AcceptServer, servers.ServerInfo, "widen",
        "bad_definition config_invalid no_such_server not_writable refused",
        "Let the definition count that `servers.review` has shown, also at a new destination."),
    "servers.test": Method(of_servers.test, servers.ServerName, servers.ServerTest, "read",
        "no_such_server",
        "Connect where needed, wait for the outcome and show what the server offers."),
    "servers.logs": Method(of_servers.logs, servers.ServerLogs, servers.Logs, "read", "no_such_server",
        "The last lines that the server's processes wrote to stderr."),

    "tools.list": Method(of_tools.list_tools, tools.ListTools, tools.Tools, "read",
        "disabled no_such_agent no_such_server unavailable",
        "Tools with the policy that applies to them, up to 500 an answer."),
    "tools.describe": Method(of_tools.describe, tools.NamedTool, tools.ToolDetails, "read",
        "disabled no_such_server no_such_tool unavailable",
        "One tool in full, with the rules that decide about it."),
    "tools.call": Method(of_tools.call, tools.CallTool, tools.Called, "narrow",
        "bad_answer busy denied disabled needs_login no_such_server no_such_tool outcome_unknown "
        "pending server_error timed_out too_large unavailable",
        "Call a tool through the same policy as every agent's call."),

    "resources.list": Method(of_resources.list_resources, resources.ListResources, resources.Resources,
        "read",
        "disabled no_such_agent no_such_server unavailable",
        "Resources, then templates, with the policy that applies to reading them, up to 500 an answer."),
    "resources.read": Method(of_resources.read, resources.ReadResource, resources.ResourceRead, "narrow",
        "bad_answer busy denied disabled needs_login no_such_resource no_such_server outcome_unknown "
        "pending server_error timed_out too_large unavailable",
        "Read a resource through the same policy as every agent's read."),
    "prompts.list": Method(of_prompts.list_prompts, prompts.ListPrompts, prompts.Prompts, "read",
        "disabled no_such_agent no_such_server unavailable",
        "Prompts with their arguments and the policy that applies to them, up to 500 an answer."),
    "prompts.get": Method(of_prompts.get, prompts.GetPrompt, prompts.GotPrompt, "narrow",
        "bad_answer busy denied disabled needs_login no_such_prompt no_such_server outcome_unknown "
        "pending server_error timed_out too_large unavailable",
        "Fill in a prompt through the same policy as every agent's request for it."),

    "grants.list": Method(of_grants.list_grants, Params, grants.Grants, "read", "",
        "Every lasting yes that has not come to its end."),
    "grants.add": Method(of_grants.add, grants.AddGrant, grants.Granted, "widen",
        "disabled no_such_agent no_such_server no_such_session no_such_tool not_writable refused unavailable",
        "Say yes for longer than one request; open questions that it covers are answered by it."),
    "grants.revoke": Method(of_grants.revoke, grants.GrantId, grants.GrantInfo, "narrow",
        "no_such_grant not_writable",
        "Take a lasting yes back."),

    "approvals.list": Method(of_approvals.list_approvals, approvals.ListApprovals, approvals.ApprovalList,
        "read", "",
        "The calls that wait for a person, yeses that no call has used yet, and muted agents."),
    "approvals.get": Method(of_approvals.get, approvals.ApprovalId, approvals.ApprovalDetails, "read",
        "no_such_approval",
        "One question with all of its arguments; `seen` in it is what a yes to cut arguments needs."),
    "approvals.approve": Method(of_approvals.approve, approvals.Approve, approvals.Answered, "widen",
        "no_such_approval refused",
        "Say yes, once: to the call that waits, or for an hour to the next one that is the same."),
    "approvals.deny": Method(of_approvals.deny, approvals.ApprovalId, approvals.Answered, "narrow",
        "no_such_approval",
        "Say no, also in place of a yes that no call has used yet; the same call is refused for 15 minutes."),
    "approvals.mute": Method(of_approvals.mute, approvals.MuteAgent, Empty, "narrow", "no_such_agent",
        "Ask nobody about the calls of an agent any more; what is open is withdrawn."),
    "approvals.unmute": Method(of_approvals.unmute, approvals.MuteAgent, approvals.Unmuted, "widen",
        "no_such_agent",
        "Ask about them again."),

    "pins.list": Method(of_pins.list_pins, pins.ListPins, pins.PinList, "read", "no_such_server",
        "Definitions that were seen by a person, and those that wait for one, up to 500 an answer."),
    "pins.flags": Method(of_pins.flags, servers.ServerName, pins.FlaggedPins, "read", "no_such_server",
        "What in a server's definitions a person should know of before trusting it."),
    "pins.diff": Method(of_pins.diff, pins.DiffPins, pins.PinDiffs, "read", "no_such_server no_such_tool",
        "What waits of a server, or what is named, beside what was seen of it; 50 definitions at most."),
    "pins.accept": Method(of_pins.accept, pins.AcceptPins, pins.Accepted, "widen",
        "no_such_server no_such_tool not_writable",
        "Let definitions count as `pins.diff` has shown them."),

    "config.check": Method(of_config.check, config.CheckText, config.Checked, "read", "",
        "What a text would be worth as config.toml, or as a server's or an agent's file: what is wrong, in "
        "which line, and what is hardly meant so."),

    "agents.list": Method(of_agents.list_agents, Params, agents.Agents, "read", "",
        "Every agent with what its entry says; the default one first."),
    "agents.get": Method(of_agents.get, agents.NamedAgent, agents.AgentDetails, "read", "no_such_agent",
        "One agent in full, with how much of each server it may use and its sessions."),
    "agents.add": Method(of_agents.add, agents.AddAgent, agents.AgentDetails, "widen",
        "bad_definition config_invalid name_taken not_writable refused",
        "Write an agent's file; it counts at once, and the agent has a socket of its own."),
    "agents.remove": Method(of_agents.remove, agents.NamedAgent, agents.AgentRemoved, "widen",
        "no_such_agent not_writable",
        "Delete an agent's file, and with the agent its token, grants and sessions; the default agent stays, "
        "and may use everything without an entry."),
    "agents.allow": Method(of_agents.allow, agents.AgentTools, agents.AgentChanged, "widen",
        "bad_definition config_invalid no_such_agent not_writable refused",
        "Give an agent servers or tools, at once also in sessions that are attached."),
    "agents.deny": Method(of_agents.deny, agents.AgentTools, agents.AgentChanged, "narrow",
        "bad_definition config_invalid no_such_agent not_writable refused",
        "Take servers or tools from an agent, at once also in sessions that are attached."),
    "agents.max_risk": Method(of_agents.max_risk, agents.AgentRisk, agents.AgentChanged, "widen",
        "bad_definition config_invalid no_such_agent not_writable refused",
        "Say how far an agent may go: calls above it are denied."),
    "agents.sessions": Method(of_agents.sessions, agents.ListSessions, agents.Sessions, "read",
        "no_such_agent",
        "The attached sessions, by the kernel's word and by their own."),
    "sessions.switch": Method(of_agents.switch, agents.SwitchServer, agents.SessionInfo, "narrow",
        "no_such_server no_such_session",
        "Show one session a server no more, or again: never more than its agent may use."),

    "policy.explain": Method(of_policy.explain, policy.Explain, policy.Explained, "read",
        "disabled no_such_agent no_such_server no_such_tool unavailable",
        "Every rule about a request, the one that decides and what would change it; nothing is called."),
    "policy.replay": Method(of_policy.replay, policy.Replay, policy.Replayed, "read", "not_writable",
        "Which recorded requests would be decided otherwise now."),

    "endpoint.status": Method(of_endpoint.status, Params, endpoint.EndpointStatus, "read", "",
        "The loopback HTTP endpoint: whether it listens, where, and which agents have a token."),
    "endpoint.enable": Method(of_endpoint.enable, endpoint.EnableEndpoint, endpoint.EndpointStatus, "widen",
        "not_writable refused",
        "Listen for agents on 127.0.0.1 and ::1, over restarts too."),
    "endpoint.disable": Method(of_endpoint.disable, Params, endpoint.EndpointStatus, "narrow", "not_writable",
        "Listen no more and end every session over HTTP."),
    "endpoint.token": Method(of_endpoint.token, endpoint.AgentToken, endpoint.NewToken, "widen",
        "no_such_agent not_writable refused",
        "Make the bearer token of an agent and tell it this once; a replaced one ends its sessions."),
    "endpoint.revoke": Method(of_endpoint.revoke, endpoint.AgentWithToken, endpoint.EndpointStatus, "narrow",
        "no_such_agent not_writable",
        "Forget the token of an agent and end its sessions over HTTP."),

    "journal.query": Method(of_journal.query, journal.QueryJournal, journal.Journal, "read", "not_writable",
        "What was asked of servers, decided and changed; with `after` and `wait` as it happens."),

    "passphrase.status": Method(of_passphrase.status, Params, passphrase.Factor, "read", "",
        "Whether a passphrase is set, which is asked for where a process cannot be told from an agent's."),
    "passphrase.prove": Method(of_passphrase.prove, passphrase.Passphrase, Empty, "narrow", "busy refused",
        "Show the passphrase; it counts as long as this connection."),
    "passphrase.set": Method(of_passphrase.put, passphrase.Passphrase, passphrase.Factor, "widen",
        "not_writable",
        "Set a passphrase or another one; the one that is set has to be shown before."),
    "passphrase.remove": Method(of_passphrase.remove, Params, passphrase.Factor, "widen", "not_writable",
        "Ask for no passphrase any more; it has to be shown before."),

    "events.subscribe": Method(of_events.subscribe, events.Subscribe, events.Subscribed, "read", "busy",
        "A snapshot, then a notification `event` {seq, topic, data} for each change of the topics; "
        "`events.lagged` ends it for a reader that falls behind."),
}
# fmt: on


@cache
def description() -> daemon.Description:
    """The table as data, with the schemas that msgspec makes of the structs."""
    kinds = [kind for row in METHODS.values() for kind in (row.params, row.result)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/{name}")
    pairs = zip(schemas[::2], schemas[1::2], strict=True)
    methods = tuple(
        daemon.MethodInfo(
            name=name,
            access=row.access,
            doc=row.doc,
            params=params,
            result=result,
            errors=_errors(row),
        )
        for (name, row), (params, result) in zip(METHODS.items(), pairs, strict=True)
    )
    return daemon.Description(
        api=(API_MIN, API_MAX), methods=methods, components=components, errors=EVERYWHERE
    )


def _errors(row: Method) -> tuple[str, ...]:
    kinds = row.errors.split()
    return tuple(sorted({*kinds, *WIDENING})) if row.access == "widen" else tuple(kinds)


async def answer(operator: Operator, line: bytes) -> bytes:
    """The line that answers one line of the operator; empty where JSON-RPC wants none.

    This is the firewall of the control socket: whatever a method raises ends here, and neither
    the connection nor the daemon notices. Only cancellation passes.
    """
    key, method = b"", ""
    try:
        try:
            message = jsonrpc.read(line)
        except Failure:
            key = jsonrpc.unread_id(line)
            raise
        method = message.method
        key = _key(message)
        if not message.method:
            raise Failure("invalid_request", "cannot take an answer: this side asks nothing")
        if not key:
            return b""  # a notification; there is none that the daemon takes
        return jsonrpc.result_line(key, await _call(operator, message.method, message.params))
    except Failure as failure:
        return failure_line(key, failure)
    except Exception:
        log.exception("a request on the control socket failed inside the daemon: %s", method[:100])
        return failure_line(
            key, Failure("internal", "the daemon failed to do this", hint="its log has the traceback")
        )


def failure_line(key: bytes, failure: Failure) -> bytes:
    """The answer that says why not; a server's own error travels in `data.error` as it came (D13)."""
    data = failure.details()
    if isinstance(failure, ServerError):
        data["error"] = msgspec.Raw(failure.raw)
    return jsonrpc.error_line(key, jsonrpc.error_text(failure.code, failure.message, data))


def _key(message: jsonrpc.Message) -> bytes:
    """The request's id as JSON text, empty for none. Raises Failure `invalid_request` for an odd one."""
    key = message.key
    if key[:1] not in b'"-0123456789n':
        raise Failure("invalid_request", "the id must be a string, a number or null")
    return key


async def _call(operator: Operator, name: str, params: bytes) -> bytes:
    """The result's JSON text. Raises Failure, and whatever else the method raises."""
    method = METHODS.get(name)
    if method is None:
        raise Failure("unknown_method", f'no method "{name}"', hint="daemon.describe lists the methods")
    wanted = _read_params(name, method.params, params)
    if method.access == "read" or name in RECORDED:
        return msgspec.json.encode(await method.handler(operator, wanted))
    outcome = "cancelled"
    try:
        if method.access == "widen":
            operator.authorise(name)
        result = msgspec.json.encode(await method.handler(operator, wanted))
        outcome = "ok"
        return result
    except Failure as failure:
        outcome = failure.kind
        raise
    except Exception:
        outcome = "internal"
        raise
    finally:
        operator.record(name, wanted, outcome, operator.proof if method.access == "widen" else "")


def _read_params(name: str, shape: type[Params], params: bytes) -> Params:
    """Strict: an unknown member is refused by name, and the place of a wrong one is told."""
    try:
        return msgspec.json.decode(params or b"{}", type=shape)
    except RecursionError:
        raise Failure("invalid_params", f'cannot read the params of "{name}": nested too deeply') from None
    except msgspec.DecodeError as e:
        reason = str(e)
        raise Failure(
            "invalid_params", f'cannot read the params of "{name}": {reason[:1].lower()}{reason[1:]}'
        ) from None
