"""What malloc keeps and gives back, in a process of its own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc of another libc")

PROGRAM = """
import threading
from mcpd import memory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20

def fill():
    return [bytes(2000) for _ in range(25_000)]

memory.settle()
{}
"""


def said(program: str) -> list[int]:
    """The numbers that a fresh interpreter prints, in MiB."""
    command = [sys.executable, "-c", PROGRAM.format(program)]
    return [int(word) for word in subprocess.run(command, capture_output=True, check=True).stdout.split()]


def test_what_lies_between_used_blocks_is_given_back() -> None:
    full, left = said("""
blocks = fill()
kept = blocks[::50]
del blocks
print(resident())
memory.give_back()
print(resident())
""")
    assert full - left > 35


def test_what_a_thread_has_used_is_there_for_others() -> None:
    before, after = said("""
thread = threading.Thread(target=fill)
thread.start()
thread.join()
print(resident())
blocks = fill()
print(resident())
""")
    assert after - before < 10
