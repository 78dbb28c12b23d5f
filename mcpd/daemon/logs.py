"""Where the daemon's log goes, and that writing it can neither stall the daemon nor carry what is not text.

Under systemd: lines with a `<priority>` prefix for the journal. In the foreground: lines with the time.
On demand: a private file, rotated and bounded. One line is one record, whatever a server put into it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
from collections.abc import Callable

from mcpd.daemon import systemd

#: A pipe that is writable at all takes this many bytes without blocking (PIPE_BUF).
LINE = 4096
#: Characters of a record with its traceback in the log file.
FILE_LINE = 4 * LINE
FILE_SIZE = 1024 * 1024
FILES = 3

#: Level -> priority of syslog(3).
_PRIORITY = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))


class Redaction(logging.Filter):
    """The last thing that happens to a record: `redact` sees the finished text, traceback included.

    Whoever holds secrets sets `redact`; until then the text passes as it is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.redact: Callable[[str], str] = str

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = self.redact(record.getMessage())
        record.args = ()
        if record.exc_info:
            record.exc_text = self.redact(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return True


class PlainLines(logging.Formatter):
    """Records as printable lines: no control character reaches a terminal, no newline fakes a record.

    Only a traceback has more than one line, and those are indented: texts of servers may stand in it.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        # Cut first: escaping many megabytes would hold the loop.
        return printable(super().formatMessage(record)[:LINE])

    def format(self, record: logging.LogRecord) -> str:
        first, *traceback = super().format(record).split("\n")
        text = "\n".join([first, *("  " + printable(line[:LINE]) for line in traceback)])
        return text[:FILE_LINE]


class JournalLines(PlainLines):
    """The same for the journal, which takes each line for a record and adds the time itself."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"<{next((number for level, number in _PRIORITY if record.levelno >= level), 7)}>"
        return "\n".join(prefix + line for line in super().format(record).split("\n"))


class StandardError(logging.Handler):
    """Writes to standard error only what it takes at once.

    A reader that does not read (a full pipe, a stopped terminal) loses lines and is told how many.
    """

    def __init__(self, fd: int = 2) -> None:
        super().__init__()
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self.lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        if not self._ready():
            self.lost += 1
            return
        if self.lost:
            self._write(f"({self.lost} log lines were lost: nobody read them)")
            self.lost = 0
            if not self._ready():
                self.lost = 1
                return
        self._write(self.format(record))

    def _ready(self) -> bool:
        return any(happened & select.POLLOUT for _, happened in self._poll.poll(0))

    def _write(self, text: str) -> None:
        data = text.encode(errors="backslashreplace")[: LINE - 1] + b"\n"
        with contextlib.suppress(OSError):  # a log that cannot be written is no reason to stop
            os.write(self._fd, data)


def printable(line: str) -> str:
    """The line with control characters, bidirectional marks and the like written as escapes."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def set_up(log_file: str, *, on_demand: bool) -> Redaction:
    """Send the root logger where it belongs and return the filter that every record passes.

    `log_file` is used by a daemon started on demand outside systemd; its folder must exist.
    """
    handler: logging.Handler
    if systemd.stderr_is_journal(os.environ):
        handler = StandardError()
        handler.setFormatter(JournalLines("%(message)s"))
    else:
        handler = (_log_file(log_file) if on_demand else None) or StandardError()
        handler.setFormatter(PlainLines("%(asctime)s %(levelname)s %(message)s"))
    redaction = Redaction()
    handler.addFilter(redaction)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.raiseExceptions = False  # a full disk must not write tracebacks to standard error
    return redaction


def _log_file(path: str) -> logging.Handler | None:
    """None when it cannot be opened: a daemon without a log is better than none."""
    from logging.handlers import RotatingFileHandler  # 10 ms that the other ways to run do not need

    try:
        return RotatingFileHandler(
            path,
            maxBytes=FILE_SIZE,
            backupCount=FILES - 1,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except OSError:
        return None
