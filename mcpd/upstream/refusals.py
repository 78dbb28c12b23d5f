"""What is said instead of a server's answer: reason, and the next step (b26, b27, D13)."""

from __future__ import annotations

from mcpd.api.status import Status
from mcpd.config.spec import Faulty, Hold, Server
from mcpd.errors import Failure
from mcpd.transport.base import Unanswered
from mcpd.transport.pending import Slot


def disabled(name: str) -> Failure:
    return Failure("disabled", f'server "{name}" is disabled', hint=f"mcpctl enable {name}", server=name)


def removed(name: str) -> Failure:
    return Failure("no_such_server", f'server "{name}" was removed', server=name)


def unavailable(definition: Server | Faulty, status: Status, held: Hold | None, wait: float) -> Failure:
    """What the agent that wanted this server is told.

    `held`: what waits for a person. `wait`: seconds until it is tried again at the earliest.
    """
    name = definition.name
    text = f'server "{name}" is {status.state}'
    if status.reason and status.reason != status.state:
        text += f" ({status.reason})"
    if status.error:
        text += f": {status.error}"
    if held is not None and held.words not in text:
        text += f"; {held.words}"
    data: dict[str, object] = {"server": name, "reason": status.reason}
    if wait > 0:
        data["retry_after"] = round(wait, 1)
    kind = "needs_login" if status.state == "needs_auth" else "unavailable"
    return Failure(kind, text, hint=_next_step(definition, status, held), **data)


def _next_step(definition: Server | Faulty, status: Status, held: Hold | None) -> str:
    """What a person can do about the status."""
    if held is not None:
        return held.command
    if isinstance(definition, Server) and status.reason in ("needs_auth", "access_denied"):
        return login_hint(definition)
    if isinstance(definition, Faulty):
        return "mcpctl status names what is wrong; mend it, then: mcpctl reload"
    if status.reason == "command_not_found":
        return f"mend it in {definition.source}, then: mcpctl reload"
    return f"mcpctl logs {definition.name}; mcpctl reconnect {definition.name}"


def login_hint(server: Server) -> str:
    """How a person lets mcpd in: only by a header, until it can log in by itself (b27)."""
    names = [name for name in server.headers if name.lower() == "authorization"] or list(server.headers)
    if names:
        what = f'write a value that the server accepts for the header "{names[0]}"'
    else:
        what = 'write headers = { Authorization = "Bearer ..." }'
    return f"{what} into {server.source}, then: mcpctl reload"


_HINTS = {
    "outcome_unknown": "check before repeating it",
    "bad_answer": "mcpctl test {name}",
    "unavailable": "mcpctl test {name}",
}


def unanswered(definition: Server | Faulty, e: Unanswered, words: str) -> Failure:
    """What the caller is told instead of an answer that the transport did not bring. `words`: its own,
    without what mcpd holds for the server, as a page may repeat the headers that it got."""
    name = definition.name
    hint = _HINTS.get(e.kind, "").format(name=name)
    if isinstance(definition, Server) and e.reason in ("needs_auth", "access_denied"):
        hint = login_hint(definition)
    text = f'server "{name}" did not answer the request: {words}'
    return Failure(e.kind, text, hint=e.hint or hint, server=name, reason=e.reason, **e.data)


def ended(name: str, status: Status, reached: bool) -> Failure:
    """The connection ended under a request. `reached`: the server may have acted on it."""
    why = f": {status.error}" if status.error else ""
    if not reached:
        return Failure(
            "unavailable",
            f'server "{name}" ended before the request reached it{why}',
            hint=f"mcpctl logs {name}",
            server=name,
        )
    return Failure(
        "outcome_unknown",
        f'server "{name}" ended during the request, which may or may not have taken effect{why}',
        hint="check before repeating it",
        server=name,
    )


def late(name: str, slot: Slot) -> Failure:
    """The time of a request is over (D9)."""
    if slot.used_up:
        why = f"did not finish within {slot.total:g} s"
        hint = "a longer `timeout_max` can be set under [defaults] in config.toml"
    else:
        why = f"gave no answer and no progress for {slot.idle:g} s"
        hint = "a longer `timeout` can be set in the server's default_policy"
    text = f'server "{name}" {why}; the request was cancelled'
    return Failure("timed_out", text, hint=hint, server=name)
