"""What the kernel says of a process afterwards."""

from __future__ import annotations

import subprocess
import sys


def said(program: str) -> list[str]:
    """The lines that a fresh interpreter prints; none of this may happen to the one that runs the tests."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()


def test_conceal_closes_memory_and_new_files_to_others() -> None:
    program = """
import ctypes, os
from mcpd.daemon import process
os.umask(0o027)
print(oct(process.conceal()))
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), oct(os.umask(0)))  # PR_GET_DUMPABLE
"""
    assert said(program) == ["0o27", "0", "0o77"]


def test_the_limit_of_open_files_is_raised_and_the_former_one_told() -> None:
    program = """
import resource
from mcpd.daemon import process
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (123, hard))
print(process.raise_file_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard)
"""
    assert said(program) == ["123", "True"]


def test_a_name_is_cut_to_what_the_kernel_keeps() -> None:
    program = """
from mcpd.daemon import process
process.rename("mcpd-guard-of-somebody")
print(open("/proc/self/comm").read())
"""
    assert said(program) == ["mcpd-guard-of-s"]


def test_a_thread_that_computes_does_not_keep_the_lock_for_long() -> None:
    """The loop makes fifty calls of the kernel and waits for the lock after each: 0.25 s, if it were 5 ms."""
    program = """
import threading, time
from mcpd.daemon import process
process.switch_soon()
done = False
def compute():
    while not done:
        sum(range(100))
threading.Thread(target=compute).start()
began = time.perf_counter()
for _ in range(50):
    time.sleep(0.0001)  # any call that gives the lock up
print(time.perf_counter() - began < 0.15)
done = True
"""
    assert said(program) == ["True"]
