"""A question to a person as text: who asks, what would run, on what, and why it is asked (a31, n07)."""

from __future__ import annotations

from mcpctl import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def card(approval: Any) -> str:
    """Everything that the daemon shows of a question, fit for a terminal."""
    pairs = [
        ("asked by", asked_by(approval)),
        ("server", f"{approval['server']}: {approval['runs']}" if approval["runs"] else approval["server"]),
        ("tool", approval["tool"] if approval["tool"] != approval["name"] else ""),
        ("says", approval["description"]),
        *(("beware", flag) for flag in approval["flags"]),
        *(argument(each) for each in approval["arguments"]),
        *(("beware", f"{each['name']}: {what}") for each in approval["arguments"] for what in each["hidden"]),
        ("not shown", not_shown(approval)),
        ("because", "\n".join(approval["because"])),
        ("open", still_open(approval)),
    ]
    return f"{title(approval)}\n{output.fields([(f'  {name}', value) for name, value in pairs])}"


def title(approval: Any) -> str:
    who = f'agent "{approval["agent"]}"' if approval["agent"] else "you, by mcpctl,"
    verb = "asks" if approval["agent"] else "ask"
    text = f"{approval['id']}  {who} {verb} to call {approval['name']}  (risk {approval['risk']})"
    return output.visible(text)


def asked_by(approval: Any) -> str:
    """A bridge says little; who stands behind it is what a person knows."""
    process = f"{approval['exe'] or 'an unknown program'}, process {approval['pid']}"
    folder = f", in {approval['cwd']}" if approval["cwd"] else ""
    host = approval.get("host")
    return f"{host}, through {process}{folder}" if host else f"{process}{folder}"


def argument(shown: Any) -> tuple[str, str]:
    """A line `kind  name = value`; further lines of the value stand below it."""
    return shown["kind"] or "argument", f"{shown['name']} = {shown['value']}"


def not_shown(approval: Any) -> str:
    left_out = sum(each["left_out"] for each in approval["arguments"])
    parts = []
    if left_out:
        parts.append(f"{left_out:,} characters")
    if approval["left_out"]:
        parts.append(output.plural(approval["left_out"], "argument"))
    return f"{' and '.join(parts)} (all of it: mcpctl approvals {approval['id']})" if parts else ""


def still_open(approval: Any) -> str:
    waits = (
        f"{output.plural(approval['waiting'], 'call')} waiting" if approval["waiting"] else "no call waiting"
    )
    left = "" if approval["left"] is None else f"for {output.duration(max(approval['left'], 0))}, "
    return f"{left}{waits}"
