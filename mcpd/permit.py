"""The policy step of the path (DESIGN 6, 8): may this request go to its server, and who says so.

The decision is `policy.decide`'s. Here only what it depends on is gathered, and a person waited for.
"""

from __future__ import annotations

import msgspec

from mcpd.broker import Broker
from mcpd.errors import Failure
from mcpd.policy.decide import Allow, Ask, Decision, Deny, policy_key
from mcpd.rows import Row


class Permit(msgspec.Struct, frozen=True):
    """What let a request go to its server, for the journal."""

    because: tuple[str, ...]
    cover: str = ""
    """The id of the grant."""
    approved: str = ""
    """The id of the person's yes."""


def permit(broker: Broker, row: Row, payload: bytes) -> Permit:
    """`payload` is what `row.checked` gave. Raises Failure `denied`."""
    decision = row.decision
    if isinstance(decision, Allow):
        return Permit(decision.because)
    raise refusal(row, decision)


def refusal(row: Row, decision: Decision) -> Failure:
    """Why the request does not go anywhere, in words for its caller."""
    server, tool = row.upstream.name, row.tool.name
    if isinstance(decision, Deny):
        if row.upstream.held:
            hint = f"{row.upstream.held}: mcpctl reload"
        else:
            hint = decision.hint
        return Failure("denied", decision.message, hint=hint, server=server)
    assert isinstance(decision, Ask)
    return Failure(
        "denied",
        f'denied: nobody can be asked yet; set approval = "never" in the policy of server "{server}"'
        f' or tool "{tool}"',
        hint=f'in the definition of server "{server}": default_policy = {{ approval = "never" }},'
        f' or in config.toml under [tool_policies]: {policy_key(server, tool)} = {{ approval = "never" }}',
        server=server,
    )
