"""`mcpd run`: the daemon in the foreground, under systemd, or started on demand by mcpctl."""

from __future__ import annotations

import gc
import sys

USAGE = """\
usage: mcpd run [--on-demand]
       mcpd --version

The daemon runs in the foreground until SIGTERM, SIGINT or `mcpctl stop`. Everything it does is asked for by
mcpctl. Folders: MCPD_RUNTIME_DIR, XDG_RUNTIME_DIR, XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_CACHE_HOME.

  --on-demand  log to a file, let go of the terminal once the sockets are served, and end with 0 when
               another mcpd already runs here
"""


def main() -> int:
    """Returns the exit code: 0 done, 1 failed, 2 usage."""
    arguments = sys.argv[1:]
    if arguments in (["run"], ["run", "--on-demand"]):
        return _run(on_demand=len(arguments) == 2)
    if arguments == ["--version"]:
        from mcpd import __version__

        print(f"mcpd {__version__}")
        return 0
    if arguments in (["--help"], ["-h"]):
        print(USAGE, end="")
        return 0
    print(USAGE, end="", file=sys.stderr)
    return 2


def _run(*, on_demand: bool) -> int:
    """Guard, lock, daemon, in this order: what is loaded before the guard stays in its memory."""
    gc.disable()  # until everything is loaded: a seventh of the start-up time, for nothing
    import signal

    from mcpd.daemon import guard, process

    # Until the loop heeds it, Ctrl-C ends the start at once, as SIGTERM does, without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    umask = process.conceal()
    guarding = guard.start()

    from mcpd.daemon import lock, paths
    from mcpd.errors import Failure

    try:
        where = paths.settle()
        held = lock.take(where.lock)
        lock.take_state(where.state_lock, where.control_socket)  # never given back
        from mcpd.daemon import app

        app.run(where, held, guarding, umask, on_demand=on_demand)
    except Failure as failure:
        hint = f" ({failure.hint})" if failure.hint else ""
        print(f"mcpd: {failure.message}{hint}", file=sys.stderr)
        return 0 if on_demand and isinstance(failure, lock.Taken) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
