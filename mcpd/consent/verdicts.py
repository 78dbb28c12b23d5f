"""What a call is told about its question, in words for the model and for the person behind it (n05, D13)."""

from __future__ import annotations

from math import inf

from mcpd.consent.questions import Outcome, Question
from mcpd.errors import Failure
from mcpd.protocol import jsonrpc


def pending(name: str, tool: str, left: float) -> Failure:
    """The question `name` stays open for `left` seconds; the call is over."""
    until = f" within {_spelled(left)}" if left < inf else ""
    return Failure(
        "pending",
        f'pending: this call of "{tool}" waits for a person to approve it ({name}); it has not run',
        hint=f"the user can answer{until}: mcpctl approve {name}, or mcpctl approvals to look first; then"
        " call again with exactly the same arguments, which also waits for the answer",
        approval=name,
    )


def refusal(name: str, question: Question, outcome: Outcome, refused: float) -> Failure:
    """Why a question that is settled lets the call not through; a no counts for `refused` seconds."""
    tool = question.name
    match outcome:
        case "denied":
            message = f'denied: a person said no to this call of "{tool}" ({name})'
            hint = "; ".join(
                (f"the same call is refused for {_spelled(refused)}", *_next(question.bound.agent))
            )
        case "expired":
            message = f'denied: nobody answered whether "{tool}" may be called ({name})'
            hint = "calling again asks again"
        case "muted":
            return muted(question.bound.agent)
        case _:
            message = f'denied: mcpd stops, and nobody has approved this call of "{tool}"'
            return Failure("stopping", message, approval=name)
    return Failure("denied", message, hint=hint, approval=name)


def refused(agent: str, left: float) -> Failure:
    """A person has said no to the same call; that counts for `left` more seconds (n07)."""
    message = f"denied: a person said no to the same call; it is refused for another {_spelled(left)}"
    return Failure("denied", message, hint="".join(_next(agent)))


def too_large(size: int, most: int) -> Failure:
    return Failure(
        "denied",
        f"denied: nobody can look at {size:,} bytes of arguments, {most:,} at most",
        hint="a grant or a policy can allow such calls without a question",
    )


def too_many_open(agent: str, most: int) -> Failure:
    message = f"{most} questions of {_who(agent)} wait for a person already"
    return Failure("busy", message, hint="call again when they are answered: mcpctl approvals")


def muted(agent: str, asked: int = 0) -> Failure:
    """`asked`: so many questions within an hour were the reason; 0: it is muted already."""
    why = f"has asked {asked} questions within an hour and is muted" if asked else "is muted"
    return Failure(
        "busy",
        f"nobody is asked about this call: {_who(agent)} {why}",
        hint=f"the user can undo that: mcpctl approvals --unmute '{agent}'",
    )


def progress(name: str, number: int) -> bytes:
    """The params of a notice that rises and stays below zero, where a server's own progress begins (5.8)."""
    message = f"waiting for a person to approve {name} (mcpctl approvals)"
    return b'{"progress":%.6f,"message":%s}' % (-1 / number, jsonrpc.quoted(message))


def _next(agent: str) -> tuple[str, ...]:
    """What an agent may do after a no. The operator is the user; mcpctl names what would change it."""
    return ("ask the user what to do instead",) if agent else ()


def _who(agent: str) -> str:
    return f'agent "{agent}"' if agent else "the operator"


def _spelled(seconds: float) -> str:
    return f"{round(seconds / 60)} min" if seconds >= 60 else f"{max(int(seconds), 1)} s"
