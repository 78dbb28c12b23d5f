"""Entry point. `bridge` is kept apart: it must start with almost no imports (n01)."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    """Run one command; `argv` is without the program's name. Returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["bridge"] and "-h" not in words and "--help" not in words:
        from mcpctl import bridge

        return bridge.main(words[1:])
    from mcpctl import cli

    return cli.main(words)


if __name__ == "__main__":
    sys.exit(main())
