"""What a client can be asked by a server, as one small value: elicitation, sampling, roots (5.1).

Sets of abilities are joined and masked for every server and caller, so they are bits and not objects.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Any


class Ability(IntFlag):
    """One thing that a client can be asked; 0 is a client that cannot be asked anything."""

    FORM = 1
    """`elicitation/create` with a form."""
    URL = 2
    """`elicitation/create` with an address to visit."""
    SAMPLING = 4
    """`sampling/createMessage`."""
    SAMPLING_TOOLS = 8
    """With tools in it."""
    SAMPLING_CONTEXT = 16
    """With `includeContext` other than "none"."""
    ROOTS = 32
    """`roots/list`."""


NONE = Ability(0)
ELICITATION = Ability.FORM | Ability.URL
ALL_SAMPLING = Ability.SAMPLING | Ability.SAMPLING_TOOLS | Ability.SAMPLING_CONTEXT


def read(capabilities: dict[str, Any]) -> Ability:
    """A client's `capabilities`. What is there without being an object does not count; an empty
    `elicitation` means forms (5.1)."""
    found = NONE
    elicitation = capabilities.get("elicitation")
    if isinstance(elicitation, dict):
        if isinstance(elicitation.get("url"), dict):
            found |= Ability.URL
        if isinstance(elicitation.get("form"), dict) or not found:
            found |= Ability.FORM
    sampling = capabilities.get("sampling")
    if isinstance(sampling, dict):
        found |= Ability.SAMPLING
        if isinstance(sampling.get("tools"), dict):
            found |= Ability.SAMPLING_TOOLS
        if isinstance(sampling.get("context"), dict):
            found |= Ability.SAMPLING_CONTEXT
    if isinstance(capabilities.get("roots"), dict):
        found |= Ability.ROOTS
    return found


def declare(abilities: Ability, *, stateless: bool) -> dict[str, Any]:
    """The `capabilities` that say so; `roots.listChanged` is unknown to the stateless era (5.1)."""
    out: dict[str, Any] = {}
    if abilities & Ability.ROOTS:
        out["roots"] = {} if stateless else {"listChanged": True}
    if abilities & Ability.SAMPLING:
        parts = (("tools", Ability.SAMPLING_TOOLS), ("context", Ability.SAMPLING_CONTEXT))
        out["sampling"] = {name: {} for name, ability in parts if abilities & ability}
    if abilities & ELICITATION:
        modes = (("form", Ability.FORM), ("url", Ability.URL))
        out["elicitation"] = {name: {} for name, ability in modes if abilities & ability}
    return out


def words(abilities: Ability) -> tuple[str, ...]:
    """Names for people and programs, in a fixed order."""
    names = (
        (Ability.FORM, "elicitation.form"),
        (Ability.URL, "elicitation.url"),
        (Ability.SAMPLING, "sampling"),
        (Ability.SAMPLING_TOOLS, "sampling.tools"),
        (Ability.SAMPLING_CONTEXT, "sampling.context"),
        (Ability.ROOTS, "roots"),
    )
    return tuple(name for ability, name in names if abilities & ability)
