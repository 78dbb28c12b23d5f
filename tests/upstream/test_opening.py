"""Settling the revision: every outcome of the tables in protocol reference 3.6, 4.1, 4.4 and 4.5."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.api.status import Reason
from mcpd.protocol import jsonrpc
from mcpd.transport.base import ConnectionLost, Unanswered
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

    def unanswered(self, failure: Unanswered | ConnectionLost, to: int = -1) -> None:
        """The request that was sent as this one brings no JSON-RPC."""
        asked = [m for m in self.sent if "id" in m and "method" in m][to]
        self._took(self.opening.unanswered(json.dumps(asked["id"]).encode(), failure))

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
    named = "no revision" if version is None else str(version)
    assert named in talk.opening.failed.message


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


@pytest.mark.parametrize("ident", ["1", 1.0, "1.0"])
def test_ids_that_come_back_as_strings_or_floats_match(ident: str | float) -> None:
    """As on the connection that follows (2); else the opening would wait for what has come."""
    talk = Talk("legacy")
    talk.says({"jsonrpc": "2.0", "id": ident, "result": initialized("2025-11-25")})
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


# ------------------------------------------------------------------- over HTTP (3.6)


def no_answer(status: int, words: str = "?", reason: Reason = "bad_answer") -> Unanswered:
    return Unanswered("bad_answer", words, reason=reason, status=status)


@pytest.mark.parametrize("status", [200, 301, 307, 400, 404, 405, 406, 421, 500, 502])
def test_any_page_instead_of_an_answer_to_the_probe_leads_to_the_handshake(status: int) -> None:
    talk = Talk()
    talk.unanswered(no_answer(status))
    assert talk.methods == ["server/discover", "initialize"]
    talk.answers(initialized("2025-06-18"))
    assert talk.opening.verdict == "legacy"


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_too_busy_for_the_probe_is_not_remembered_as_an_older_one(status: int) -> None:
    """An outage says nothing of the era (3.6), and the verdict would hold for a day."""
    talk = Talk()
    talk.unanswered(no_answer(status))
    talk.answers(initialized("2025-11-25"))
    assert (talk.revision, talk.opening.verdict) == ("2025-11-25", "auto")


@pytest.mark.parametrize("reason", ["unreachable", "not_responding", "needs_auth", "access_denied", "failed"])
@pytest.mark.parametrize("probed", [True, False])
def test_what_says_nothing_about_the_era_ends_the_attempt(reason: Reason, probed: bool) -> None:
    """Connection failures, TLS failures and timeouts; 401 and 403 go to the login first."""
    talk = Talk("auto" if probed else "legacy")
    status = {"needs_auth": 401, "access_denied": 403}.get(reason, 0)
    talk.unanswered(no_answer(status, "why", reason))
    assert len(talk.methods) == 1
    failed = talk.opening.failed
    assert failed is not None
    assert (failed.reason, failed.message, failed.lasting) == (reason, "why", status > 0)
    assert talk.opening.verdict == "auto"


def test_a_request_that_never_arrived_ends_the_attempt() -> None:
    talk = Talk()
    talk.unanswered(ConnectionLost())
    assert talk.opening.failed is not None
    assert talk.opening.failed.reason == "unreachable"
    assert talk.opening.failed.message


@pytest.mark.parametrize("code", [-32020, -32021])
def test_a_handshake_after_a_modern_error_is_not_remembered(code: int) -> None:
    """Perhaps something on the way stripped our headers (4.5)."""
    talk = Talk()
    talk.answers(error={"code": code, "message": "no"})
    talk.answers(initialized("2025-11-25"))
    assert talk.revision == "2025-11-25"
    assert talk.opening.verdict == "auto"


@pytest.mark.parametrize("key", [None, "server-error", "", 77])
def test_an_error_without_our_id_answers_the_request_on_whose_stream_it_came(key: Any) -> None:
    """PY 1.30 says "server-error", TypeScript null."""
    talk = Talk()
    error = {"jsonrpc": "2.0", "id": key, "error": {"code": -32600, "message": "missing session id"}}
    read = jsonrpc.read_lenient(json.dumps(error).encode())
    assert read is not None
    talk._took(talk.opening.receive(read))
    assert talk.methods == ["server/discover"], "on a pipe it may be about anything"
    talk._took(talk.opening.receive(read, b'"mcpd-probe-1"'))
    assert talk.methods == ["server/discover", "initialize"]
    talk._took(talk.opening.receive(read, b"1"))
    assert talk.opening.failed is not None


@pytest.mark.parametrize("status", [404, 405, 406])
def test_a_refused_handshake_may_mean_the_oldest_transport(status: int) -> None:
    talk = Talk()
    for _ in range(2):
        assert talk.opening.failed is None
        talk.unanswered(no_answer(status, f"HTTP status {status}"))
    assert talk.opening.failed is not None
    assert talk.opening.older_may_help
    words = f"HTTP status {status}"
    assert talk.opening.heard == [("server/discover", words), ("initialize", words)]


@pytest.mark.parametrize("status", [200, 302, 500, 502, 503])
def test_a_handshake_that_fails_otherwise_does_not(status: int) -> None:
    talk = Talk()
    talk.unanswered(no_answer(404))
    talk.unanswered(no_answer(status, f"HTTP status {status}"))
    assert talk.opening.failed is not None
    assert not talk.opening.older_may_help
    assert talk.opening.failed.message == f"HTTP status {status}"


@pytest.mark.parametrize(
    ("error", "older"),
    [
        ({"code": -32000, "message": "no session"}, True),
        ({"code": -32601, "message": "what?"}, True),
        ({"code": -32602, "message": "bad version", "data": {"supported": ["1999-01-01"]}}, False),
        ({"code": -32020, "message": "mismatch"}, False),
        ({"code": -32022, "message": "version"}, False),
        ({"code": -32022, "message": "version", "data": {"supported": [MODERN, "2025-06-18"]}}, False),
    ],
)
def test_a_modern_error_to_the_handshake_excludes_it(error: dict[str, Any], older: bool) -> None:
    talk = Talk()
    for _ in range(4):
        if talk.opening.failed is None:
            talk.answers(error=error)
    assert talk.opening.failed is not None
    assert talk.opening.older_may_help is older


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("HTTP status 400: Unsupported protocol version", "2025-06-18"),
        ("HTTP status 400: supported versions: 2025-03-26, 2024-11-05", "2025-03-26"),
    ],
)
def test_a_page_that_refuses_the_revision_is_followed_by_an_older_one(words: str, offered: str) -> None:
    talk = Talk()
    talk.unanswered(no_answer(400, "HTTP status 400"))
    talk.unanswered(no_answer(400, words))
    assert talk.methods == ["server/discover", "initialize", "initialize"]
    assert talk.sent[-1]["params"]["protocolVersion"] == offered
    talk.answers(initialized(offered))
    assert talk.revision == offered


def test_a_page_to_both_handshakes_is_the_end_of_them() -> None:
    talk = Talk()
    for _ in range(3):
        talk.unanswered(no_answer(400, "HTTP status 400"))
    assert talk.methods == ["server/discover", "initialize", "initialize"]
    assert talk.opening.older_may_help
    assert talk.opening.failed is not None


@pytest.mark.parametrize("how", ["page", "error"])
def test_a_verdict_that_does_not_hold_any_more_is_asked_anew(how: str) -> None:
    """A server that was updated: what is remembered must not fail for a day (4.6)."""
    talk = Talk("legacy")
    assert talk.methods == ["initialize"]
    if how == "page":
        talk.unanswered(no_answer(404))
    else:
        talk.answers(error={"code": -32601, "message": "initialize?"})
    assert talk.methods == ["initialize", "server/discover"]
    talk.answers(discovered(MODERN))
    assert talk.opening.verdict == "modern"


def test_and_where_that_fails_as_well_the_attempt_does() -> None:
    talk = Talk("legacy")
    talk.answers(error={"code": -32603, "message": "boom"})
    talk.answers(error={"code": -32601, "message": "what?"})
    assert talk.opening.failed is not None
    assert talk.opening.failed.reason == "failed"
    assert talk.methods == ["initialize", "server/discover"]


def test_a_legacy_pin_is_never_probed() -> None:
    talk = Talk("legacy", pinned=True)
    talk.answers(error={"code": -32022, "message": "?", "data": {"supported": [MODERN]}})
    assert talk.methods == ["initialize"]
    assert talk.opening.failed is not None


def test_a_modern_pin_tells_what_came_instead() -> None:
    talk = Talk("modern", pinned=True)
    talk.unanswered(no_answer(404, "HTTP status 404"))
    assert talk.methods == ["server/discover"]
    assert talk.opening.failed is not None
    assert (talk.opening.failed.reason, talk.opening.failed.lasting) == ("bad_answer", False)
    assert "HTTP status 404" in talk.opening.failed.message
    assert not talk.opening.older_may_help


def test_nothing_follows_once_the_revision_is_settled() -> None:
    talk = Talk()
    talk.answers(error={"code": -32601, "message": "no"})
    talk.answers(initialized("2025-06-18"))
    before = talk.methods
    talk.unanswered(no_answer(500))
    talk._took(talk.opening.unanswered(b"77", no_answer(500)))
    assert talk.methods == before
    assert talk.opening.failed is None


# ------------------------------------------------------------------- whatever a server does

ERRORS: list[dict[str, Any]] = [
    {"code": code, "message": "no", **({"data": {"supported": supported}} if supported else {})}
    for code in (-32601, -32600, -32020, -32021, -32022, 0)
    for supported in ([], [MODERN], ["2025-06-18"], [MODERN, "2025-06-18"], ["2099-01-01"])
]
REPLIES: list[Any] = [
    *({"error": error} for error in ERRORS),
    *(
        {"result": result}
        for result in (discovered(MODERN), discovered("2025-11-25"), discovered("2099-01-01"))
    ),
    *({"result": result} for result in (initialized("2025-06-18"), initialized(MODERN), {}, {"x": 1})),
    *(no_answer(status, f"HTTP status {status}") for status in (200, 301, 400, 404, 405, 500)),
    no_answer(0, "connection refused", "unreachable"),
    no_answer(401, "HTTP status 401", "needs_auth"),
    ConnectionLost(),
]


@given(
    era=st.sampled_from(["auto", "legacy", "modern"]),
    pinned=st.booleans(),
    replies=st.lists(st.sampled_from(REPLIES), min_size=8, max_size=8),
    silent=st.booleans(),
)
def test_every_opening_comes_to_an_end(era: str, pinned: bool, replies: list[Any], silent: bool) -> None:
    """Once each request has its answer, of whatever kind, it is settled or has failed: nobody waits."""
    talk = Talk(era, pinned=pinned)
    if silent:
        talk.silence()
    for answered, reply in enumerate(replies):
        asked = [message for message in talk.sent if "id" in message and "method" in message]
        if answered == len(asked):
            break
        if isinstance(reply, dict):
            talk.answers(reply.get("result"), error=reply.get("error"), to=answered)
        else:
            talk.unanswered(reply, to=answered)
    assert (talk.opening.settled is None) != (talk.opening.failed is None)
    assert len(talk.methods) <= 5
    if pinned and era != "auto":
        other = "initialize" if era == "modern" else "server/discover"
        assert other not in talk.methods
