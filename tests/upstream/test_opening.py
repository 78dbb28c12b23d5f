"""Settling the revision: every outcome of the tables in protocol reference 4.1 and 4.4."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpd.protocol import jsonrpc
from mcpd.upstream.opening import Opening

MODERN = "2026-07-28"


class Talk:
    """Both ends joined: what the opening sends is read back, what a server says is handed in."""

    def __init__(self, era: str = "auto", *, pinned: bool = False) -> None:
        self.opening = Opening(era, pinned=pinned)
        self.sent: list[dict[str, Any]] = []
        self._took(self.opening.start())

    def _took(self, lines: list[bytes]) -> None:
        self.sent += [json.loads(line) for line in lines]

    def silence(self) -> None:
        self._took(self.opening.silence())

    def says(self, message: dict[str, Any]) -> None:
        read = jsonrpc.read_lenient(json.dumps(message).encode())
        assert read is not None
        self._took(self.opening.receive(read))

    def answers(self, result: Any = None, *, error: dict[str, Any] | None = None, to: int = -1) -> None:
        asked = [m for m in self.sent if "id" in m and "method" in m][to]
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        answer.update({"result": result} if error is None else {"error": error})
        self.says(answer)

    @property
    def methods(self) -> list[str]:
        return [m.get("method", "answer") for m in self.sent]

    @property
    def revision(self) -> str | None:
        return self.opening.settled.revision.name if self.opening.settled else None


def discovered(*versions: str) -> dict[str, Any]:
    return {"supportedVersions": list(versions), "capabilities": {"tools": {}}, "resultType": "complete"}


def initialized(version: Any) -> dict[str, Any]:
    return {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": ""},
    }


def test_a_modern_server_needs_no_handshake() -> None:
    talk = Talk()
    assert talk.methods == ["server/discover"]
    assert talk.sent[0]["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == MODERN
    talk.answers(discovered(MODERN))
    assert talk.revision == MODERN
    assert talk.methods == ["server/discover"]


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -32601, "message": "method not found"}},
        {"error": {"code": -32602, "message": "initialize first"}},
        {"error": {"code": -32600, "message": "?"}},
        {"error": {"code": -32002, "message": "not initialized"}},
        {"error": {"code": 0, "message": ""}},
        {"error": {"code": -32022, "message": "unsupported"}},
        {"error": {"code": -32022, "message": "u", "data": {"supported": ["2025-06-18"]}}},
        {"result": discovered("2025-11-25")},
        {"result": {}},
        {"result": {"supportedVersions": "2026"}},
    ],
)
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_any_other_answer_to_the_probe_leads_to_the_handshake(answer: dict[str, Any], version: str) -> None:
    talk = Talk()
    talk.answers(answer.get("result"), error=answer.get("error"))
    assert talk.methods == ["server/discover", "initialize"]
    assert talk.sent[1]["params"]["protocolVersion"] == "2025-11-25"
    talk.answers(initialized(version))
    assert talk.revision == version
    assert talk.methods[-1] == "notifications/initialized"


def test_a_refused_revision_with_a_mutual_one_is_probed_once_more() -> None:
    """Hazard: a recognised modern error is no reason to fall back."""
    talk = Talk()
    talk.answers(error={"code": -32022, "message": "u", "data": {"supported": [MODERN], "requested": MODERN}})
    assert talk.methods == ["server/discover", "server/discover"]
    talk.answers(discovered(MODERN))
    assert talk.revision == MODERN


def test_a_server_with_only_unknown_modern_revisions_is_not_initialized() -> None:
    talk = Talk()
    talk.answers(error={"code": -32022, "message": "u", "data": {"supported": ["2027-09-01"]}})
    assert talk.methods == ["server/discover"]
    assert talk.opening.failed is not None
    assert talk.opening.failed.reason == "no_common_revision"
    assert "2027-09-01" in talk.opening.failed.message


def test_silence_is_followed_by_initialize_and_the_first_usable_answer_decides() -> None:
    talk = Talk()
    talk.silence()
    assert talk.methods == ["server/discover", "initialize"]
    talk.answers(error={"code": -32601, "message": "late"}, to=0)
    assert talk.methods == ["server/discover", "initialize"], "nothing is sent twice"
    talk.answers(initialized("2025-06-18"), to=1)
    assert talk.revision == "2025-06-18"


def test_a_slow_modern_server_is_found_after_the_silence() -> None:
    talk = Talk()
    talk.silence()
    talk.answers(discovered(MODERN), to=0)
    assert talk.revision == MODERN
    talk.answers(error={"code": -32022, "message": "locked"}, to=1)
    assert talk.opening.failed is None


def test_initialize_refused_as_unsupported_means_modern() -> None:
    talk = Talk()
    talk.silence()
    talk.answers(error={"code": -32022, "message": "locked", "data": {"supported": [MODERN]}}, to=1)
    assert talk.methods[-1] == "server/discover"
    talk.answers(discovered(MODERN))
    assert talk.revision == MODERN


def test_a_refusal_that_names_revisions_is_followed_by_one_of_them() -> None:
    talk = Talk("legacy")
    talk.answers(error={"code": -32602, "message": "bad version", "data": {"supported": ["2024-11-05"]}})
    assert talk.sent[-1]["params"]["protocolVersion"] == "2024-11-05"
    talk.answers(initialized("2024-11-05"))
    assert talk.revision == "2024-11-05"


@pytest.mark.parametrize("version", ["2099-01-01", "1.0", 3, None, "2024-10-07", MODERN])
def test_an_unknown_revision_fails_by_name(version: Any) -> None:
    talk = Talk("legacy")
    talk.answers(initialized(version))
    assert talk.opening.failed is not None
    assert str(version) in talk.opening.failed.message


def test_ping_is_answered_during_the_opening_and_other_requests_refused() -> None:
    talk = Talk("legacy")
    talk.says({"jsonrpc": "2.0", "id": "p", "method": "ping"})
    assert talk.sent[-1] == {"jsonrpc": "2.0", "id": "p", "result": {}}
    talk.says({"jsonrpc": "2.0", "id": 9, "method": "roots/list"})
    assert talk.sent[-1]["error"]["code"] == -32601


def test_early_notices_and_foreign_answers_change_nothing() -> None:
    talk = Talk("legacy")
    talk.says({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    talk.says({"jsonrpc": "2.0", "id": 77, "result": initialized("2025-06-18")})
    assert talk.opening.settled is None


def test_a_pin_never_falls_back() -> None:
    talk = Talk("modern", pinned=True)
    talk.silence()
    talk.answers(error={"code": -32601, "message": "no"})
    assert talk.methods == ["server/discover"]
    assert talk.opening.failed is not None


def test_whether_a_fresh_process_may_do_better() -> None:
    """Some servers leave because of the probe, some after an answer to it (4.4)."""
    assert Talk().opening.fresh_may_help
    refused = Talk()
    refused.answers(error={"code": -32000, "message": "initialize first"})
    assert refused.opening.fresh_may_help
    settled = Talk()
    settled.answers(error={"code": -32000, "message": "initialize first"})
    settled.answers(initialized("2025-06-18"))
    for talk in (settled, Talk("legacy"), Talk("modern", pinned=True)):
        assert not talk.opening.fresh_may_help


def test_ids_that_come_back_as_strings_match() -> None:
    talk = Talk("legacy")
    talk.says({"jsonrpc": "2.0", "id": "1", "result": initialized("2025-11-25")})
    assert talk.revision == "2025-11-25"


LONG = "first line\nsecond line " + "x" * 1_000_000


@pytest.mark.parametrize(
    "error",
    [
        {"code": -32601, "message": LONG},
        {"code": -32022, "message": LONG, "data": {"supported": [LONG, LONG]}},
        {"code": LONG, "message": 7},
    ],
)
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_what_a_server_says_in_its_refusal_is_a_short_line(error: dict[str, Any], era: str) -> None:
    talk = Talk(era, pinned=True)
    talk.answers(error=error)
    assert talk.opening.failed is not None
    assert len(talk.opening.failed.message) < 600
    assert "\n" not in talk.opening.failed.message


def test_an_opening_keeps_no_more_than_it_needs() -> None:
    talk = Talk("legacy")
    talk.answers(result={**initialized("2025-06-18"), "instructions": "i" * 500_000})
    assert talk.opening.settled is not None
    assert len(talk.opening.settled.instructions) == 64 * 1024
    talk = Talk("legacy")
    talk.answers(result={**initialized("2025-06-18"), "serverInfo": {"name": "n" * (1 << 20)}})
    assert talk.opening.settled is None
    assert talk.opening.failed is not None
