"""The checks of definitions for `../shared/bench/leaks/score_poison.py`: JSON lines, the daemon's modules.

    .venv/bin/python ../shared/bench/leaks/score_poison.py --poison ../shared/data/poison/poison.dev.jsonl \\
        --catalogue ../shared/data/retrieval/catalogue.jsonl \\
        --cmd ".venv/bin/python tests/bench/sut_poison.py"
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from mcpd.policy import poison, shadows

#: What of a scored record is a definition.
_MEMBERS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


def describe(tool: dict[str, Any]) -> str:
    return str(tool.get("description") or "")


def check(tool: dict[str, Any], peers: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(tier, code) of each flag. `peers`: {server, tool: {name, description}}."""
    entry = json.dumps({key: tool[key] for key in _MEMBERS if tool.get(key) is not None}, ensure_ascii=False)
    text = entry.encode("utf-8", "surrogatepass")
    known = [
        shadows.Known(each["server"], each["tool"]["name"], partial(describe, each["tool"])) for each in peers
    ]
    flags = [
        *poison.hard(text),
        *poison.soft(text),
        *shadows.find(
            tool.get("server") or "", tool["name"], tool.get("description") or "", shadows.by_name(known)
        ),
    ]
    return [("hard" if flag.hard else "soft", flag.code) for flag in flags]


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps({"found": check(asked["tool"], asked["peers"])}), flush=True)


if __name__ == "__main__":
    main()
