from __future__ import annotations

import fcntl
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd.daemon import logs


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, raising = list(root.handlers), root.level, logging.raiseExceptions
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = raising


def record(message: str, *args: object, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("mcpd.test", level, __file__, 1, message, args, None)


def test_a_server_cannot_fake_lines_or_reach_the_terminal() -> None:
    text = logs.PlainLines("%(message)s").format(record("said %s", "x\x1b[2J\u202ey\tz"))
    assert text == "said x\\x1b[2J\\u202ey\\tz"


@pytest.mark.parametrize(
    ("level", "priority"),
    [(logging.DEBUG, 7), (logging.INFO, 6), (logging.WARNING, 4), (logging.ERROR, 3), (logging.CRITICAL, 2)],
)
def test_journal_lines_carry_the_priority_of_syslog(level: int, priority: int) -> None:
    entry = record("a", level=level)
    entry.exc_text = "b"
    text = logs.JournalLines("%(message)s").format(entry)
    assert text == f"<{priority}>a\n<{priority}>  b"


FORGED = "x 1.0\n2026-01-01 00:00:00,000 WARNING MCP 'bank' was removed"


@pytest.mark.parametrize("mark", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
@pytest.mark.parametrize("lines", [logs.PlainLines, logs.JournalLines])
def test_a_text_with_line_breaks_is_still_one_record(lines: type[logs.PlainLines], mark: str) -> None:
    entry = record("MCP 's': ready, %s", FORGED.replace("\n", mark))
    assert logs.Redaction().filter(entry)
    assert len(lines("%(asctime)s %(levelname)s %(message)s").format(entry).splitlines()) == 1


def test_no_line_of_a_traceback_looks_like_a_record() -> None:
    entry = record("failed")
    try:
        raise ValueError(FORGED)
    except ValueError:
        entry.exc_info = sys.exc_info()
    assert logs.Redaction().filter(entry)
    first, *others = logs.PlainLines("%(message)s").format(entry).splitlines()
    assert first == "failed"
    assert len(others) > 2
    assert all(line.startswith("  ") for line in others)


def test_a_text_is_cut_before_it_is_escaped() -> None:
    text = logs.PlainLines("%(message)s").format(record("\x00" * 10_000_000))
    assert text == "\\x00" * logs.LINE


def test_redaction_sees_the_finished_text_and_the_traceback() -> None:
    redaction = logs.Redaction()
    redaction.redact = lambda text: text.replace("hunter2", "[SECRET]")
    entry = record("token %s", "hunter2")
    try:
        raise ValueError("hunter2 is wrong")
    except ValueError:
        entry.exc_info = sys.exc_info()
    assert redaction.filter(entry)
    text = logs.PlainLines("%(message)s").format(entry)
    assert text.startswith("token [SECRET]\n  Traceback")
    assert text.endswith("ValueError: [SECRET] is wrong")


def test_a_reader_that_does_not_read_cannot_stall_the_daemon() -> None:
    read_end, write_end = os.pipe()
    size = fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    handler = logs.StandardError(write_end)
    handler.setFormatter(logs.PlainLines("%(message)s"))
    os.write(write_end, b"x" * size)
    for _ in range(3):
        handler.emit(record("lost"))
    assert handler.lost == 3
    os.read(read_end, size)
    handler.emit(record("first"))
    assert os.read(read_end, size) == b"(3 log lines were lost: nobody read them)\n"
    handler.emit(record("second"))
    assert os.read(read_end, size).splitlines() == [b"(1 log lines were lost: nobody read them)"]
    os.close(read_end)
    handler.emit(record("nobody"))
    os.close(write_end)


def test_on_demand_the_log_is_a_private_bounded_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    monkeypatch.setattr(logs, "FILE_SIZE", 1000)
    before = os.umask(0o077)  # as `process.conceal` sets it
    try:
        logs.set_up(str(tmp_path / "mcpd.log"), on_demand=True)
        for number in range(100):
            logging.getLogger("mcpd.test").warning("MCP 'x' crashed, %d times", number)
    finally:
        os.umask(before)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["mcpd.log", "mcpd.log.1", "mcpd.log.2"]
    assert all(file.stat().st_size <= 1000 for file in files)
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert files[0].read_text().endswith("WARNING MCP 'x' crashed, 99 times\n")


def test_a_log_file_that_cannot_be_opened_is_no_reason_to_stop(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    logs.set_up(str(tmp_path), on_demand=True)
    logging.getLogger("mcpd.test").info("said all the same")
    assert capfd.readouterr().err.endswith("said all the same\n")


def test_in_the_foreground_lines_go_to_standard_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    logs.set_up("/nowhere", on_demand=False)
    logging.getLogger("mcpd.test").info("naïve 日本語")
    assert capfd.readouterr().err.endswith(" INFO naïve 日本語\n")
