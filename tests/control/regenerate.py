"""Write api.json anew from the table: `python -m tests.control.regenerate`.

The checked-in copy makes every change of the control API visible in a review.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from mcpd.control.dispatch import description

COPY = Path(__file__).with_name("api.json")


def text() -> bytes:
    return msgspec.json.format(msgspec.json.encode(description(), order="sorted"), indent=2) + b"\n"


if __name__ == "__main__":
    COPY.write_bytes(text())
