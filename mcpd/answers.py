"""What the journal keeps of questions to a person and of the answers (n12)."""

from __future__ import annotations

from mcpd.caller import Caller
from mcpd.consent.questions import By, Event
from mcpd.journal import About, Entry, Journal


def record(journal: Journal, event: Event) -> None:
    """One entry when a question is opened, one when it is settled: by whom, and how sure that is."""
    question, bound = event.question, event.question.bound
    # Until somebody answers it is the caller who did something.
    by = event.by or (By(question.pid, question.exe) if event.outcome == "asked" else By(0, ""))
    journal.record(
        Entry(
            kind="approval",
            caller=Caller(question.session, bound.agent, by.pid, by.exe),
            about=About(
                server=bound.server,
                tool=bound.tool,
                method=bound.method,
                destination=bound.destination,
                risk=question.risk,
                pin=bound.pin,
            ),
            because="; ".join(question.because),
            outcome=event.outcome,
            approval=event.id,
            waited=event.waited,
            proof=by.proof,
        ),
        bound.arguments if event.outcome == "asked" else b"",
    )
