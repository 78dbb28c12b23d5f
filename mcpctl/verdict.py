"""Why a call is allowed, asked for or denied, as text (n10)."""

from __future__ import annotations

from mcpctl import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERDICTS = {
    "allow": "allowed",
    "ask": "asked for",
    "deny": "denied",
    "absent": "not there for this agent",
}


def verdict(found: Any) -> str:
    """The verdict first, then the chain with the deciding lines marked, then what would change it."""
    whose = f"agent {found['agent']}" if found["agent"] else "mcpctl"
    once = ", each time anew: no grant answers it" if found["once_only"] else ""
    lines = [
        output.visible(f"{found['name']} for {whose}: {VERDICTS[found['verdict']]}{once}"),
        output.table(("", "", "SAYS", "RULE"), map(line, found["rules"]), spill=True),
    ]
    if found["changes"]:
        rows = [(f"  {VERDICTS[each['verdict']]}", each["step"]) for each in found["changes"]]
        lines.append("what would change it:")
        lines += output.aligned([[output.visible(cell) for cell in row] for row in rows])
    return "\n".join(lines)


def line(rule: Any) -> tuple[str, str, str, str]:
    mark = "*" if rule["decides"] else ""
    return mark, rule["field"], rule["says"], rule["rule"]
