"""The passphrase that the daemon wants from whoever cannot be told from an agent (n06).

It is typed at the terminal and nowhere else: an argument or a variable can be read by other programs.
"""

from __future__ import annotations

import os

from mcpctl import output
from mcpctl.errors import CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpctl.client import Client

#: Wrong ones before the command gives up; the daemon makes more of them wait.
TRIES = 3
#: Seconds that the daemon may take over one: it computes for a moment, one after the other.
PATIENCE = 30.0


def show(mcpd: Client, wanted: CallError) -> None:
    """Ask for the passphrase and show it to the daemon. Raises `wanted` where there is no terminal, and
    CallError after wrong ones."""
    if not has_terminal():
        raise wanted
    output.note(wanted.message)
    for left in reversed(range(TRIES)):
        try:
            mcpd.call("passphrase.prove", {"passphrase": typed("passphrase: ")}, PATIENCE)
            return
        except CallError as error:
            if error.kind != "refused" or not left:
                raise
            output.note(error.message)


def has_terminal() -> bool:
    """Whether somebody can be asked, whatever the standard streams are."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def typed(prompt: str) -> str:
    """What is typed without being shown. Raises CallError without a terminal and at the end of its input."""
    from getpass import getpass

    if not has_terminal():
        raise CallError("refused", "cannot ask for a passphrase: there is no terminal here")
    try:
        return getpass(prompt)
    except EOFError:
        raise CallError("refused", "no passphrase was typed") from None
