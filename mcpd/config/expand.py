"""`${VAR}`, `${VAR:-default}` and the literal `$${` in values of the user's files (a05).

Pure. Anything else with a dollar sign is plain text. As in a shell, the default also
stands in for a variable that is set but empty. Error texts name variables and never
repeat the value they occur in: it may hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

#: A static pattern over the user's text; it cannot backtrack: each alternative begins with
#: a fixed text and ends at the first brace.
_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<inside>[^}]*)(?P<end>\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class UnsetVariable(Exception):
    """The text names variables that are not set; `names` in the order of the text."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(", ".join(names))
        self.names = names


class BadReference(ValueError):
    """The text holds a `${` that cannot be read as a variable, or a value that is no text."""


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """What files may refer to: the daemon's environment without mcpd's own settings."""
    return {name: value for name, value in environ.items() if not name.startswith("MCPD_")}


def expand(text: str, values: Mapping[str, str]) -> str:
    """The text with every reference filled in.

    Raises BadReference, or UnsetVariable with every name that has neither value nor default.
    """
    unset: dict[str, None] = {}

    def fill(match: re.Match[str]) -> str:
        if match["inside"] is None:
            return "${"
        name, colon, default = match["inside"].partition(":-")
        if not match["end"] or not _NAME.fullmatch(name):
            raise BadReference(
                'cannot read a "${": expected ${NAME} or ${NAME:-default} (write $${ for a plain ${)'
            )
        if "${" in default:
            raise BadReference(f'cannot read the default of "{name[:60]}": it holds a "${{" itself')
        value = values.get(name)
        if colon:
            value = value or default
        if value is None:
            unset[name] = None
            return ""
        if not _is_text(value):
            raise BadReference(f'cannot use the variable "{name}": its value is not valid UTF-8')
        return value

    filled = _REFERENCE.sub(fill, text)
    if unset:
        raise UnsetVariable(tuple(unset))
    return filled


def escape(text: str) -> str:
    """The text written so that `expand` gives it back."""
    return text.replace("${", "$${")


def _is_text(value: str) -> bool:
    """Whether the value survives encoding: the environment may hold bytes that are no UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
