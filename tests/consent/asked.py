"""A question for tests of those who keep it, answer it and announce it."""

from __future__ import annotations

import json
from typing import Any

from mcpd.consent.questions import Question
from mcpd.policy.binding import Bound, digest


def question(arguments: Any = None, **fields: Any) -> Question:
    bound = Bound(
        agent=fields.pop("agent", "coder"),
        server="files",
        destination="d1",
        tool="write",
        method="tools/call",
        pin="p1",
        arguments=json.dumps(arguments if arguments is not None else {"path": "/a"}).encode(),
        rules=("risk high", "approval unless_auto_approved", "timeout 60 s"),
    )
    given = {
        "session": "s1",
        "pid": 7,
        "exe": "/usr/bin/agent",
        "cwd": "/home/u/app",
        "name": "files__write",
        "risk": "high",
        "question": "asked",
        "because": ("asked",),
        "once_only": False,
    }
    return Question(bound=bound, digest=digest(bound), **{**given, **fields})
