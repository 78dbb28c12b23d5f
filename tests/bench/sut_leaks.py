"""The daemon's own leak scan as a program for ../shared/bench/leaks/score.py, one JSON line in, one out.

sut_leaks.py [--layers 1|2|3]    all three layers unless told otherwise
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable

import msgspec

from mcpd.policy.leaks.engine import Engine
from mcpd.policy.leaks.values import Held

Span = tuple[int, int, str]


class _Request(msgspec.Struct):
    op: str
    values: list[str] = []
    text: str = ""


def scanner(known: Iterable[str], layers: int = 3) -> Callable[[str], list[Span]]:
    """text -> (start, end, type) of each finding, in characters; also for `score.py --callable`."""
    engine = Engine(Held("held", f"value {number}", value) for number, value in enumerate(known))

    def scan(text: str) -> list[Span]:
        raw = text.encode()
        found = engine.find(raw, layers)
        if len(raw) == len(text):
            return [(each.start, each.end, each.type) for each in found]
        return [(len(raw[: each.start].decode()), len(raw[: each.end].decode()), each.type) for each in found]

    return scan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=3, choices=(1, 2, 3))
    layers = parser.parse_args().layers
    scan = scanner((), layers)
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=_Request)
        if request.op == "known":
            scan = scanner(request.values, layers)
            answer: object = {"ok": True}
        else:
            answer = {"findings": scan(request.text)}
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
