"""Entry point. `bridge` is kept apart: it must start with almost no imports (n01)."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without stubs; `signal` would import enum
import os
import sys

from mcpctl.errors import INTERRUPTED


def main(argv: list[str] | None = None) -> int:
    """Run one command; `argv` is without the program's name. Returns the exit code."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # else the caller ignores it
        _signal.signal(_signal.SIGINT, leave)
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["bridge"] and "-h" not in words and "--help" not in words:
        from mcpctl import bridge

        return bridge.main(words[1:])
    from mcpctl import cli

    return cli.main(words)


def leave(number: int, frame: object) -> None:
    """Ctrl-C, at once. Nothing needs tidying up that the kernel does not do, and a KeyboardInterrupt that
    meets an import is a traceback.
    """
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
