"""`approvals.*`: the questions that calls wait for, and the operator's answers."""

from __future__ import annotations

from math import inf
from typing import Literal

import msgspec
import trio

from mcpd import listing, trusting
from mcpd.api import Empty
from mcpd.api.approvals import (
    Answered,
    Approval,
    ApprovalArgument,
    ApprovalDetails,
    ApprovalId,
    ApprovalList,
    Approve,
    ListApprovals,
    MuteAgent,
    MutedAgent,
    Unmuted,
    UnusedYes,
)
from mcpd.broker import Broker
from mcpd.consent.approvals import LONG, Open
from mcpd.consent.questions import By, Question
from mcpd.control.operator import Operator
from mcpd.policy import card
from mcpd.policy.card import Card, visible

#: Characters of a tool's description.
BRIEF = 1000


async def list_approvals(operator: Operator, params: ListApprovals) -> ApprovalList:
    broker, now = operator.broker, trio.current_time()
    approvals = broker.approvals

    def wanted(agent: str) -> bool:
        return params.agent in (None, agent)

    return ApprovalList(
        approvals=tuple(
            _info(broker, opened, now) for opened in approvals.open() if wanted(opened.question.bound.agent)
        ),
        unused=tuple(
            UnusedYes(
                id=yes.id,
                agent=yes.question.bound.agent,
                server=yes.question.bound.server,
                tool=yes.question.bound.tool,
                name=yes.question.name,
                left=yes.until - now,
            )
            for yes in approvals.unused()
            if wanted(yes.question.bound.agent)
        ),
        muted=tuple(
            MutedAgent(agent=muted.agent, left=_left(muted.until, now))
            for muted in approvals.muted()
            if wanted(muted.agent)
        ),
    )


async def get(operator: Operator, params: ApprovalId) -> ApprovalDetails:
    opened = operator.broker.approvals.find(params.id)
    arguments = opened.question.bound.arguments
    if len(arguments) > LONG:
        whole = await trio.to_thread.run_sync(lambda: card.lay_out(arguments, whole=True))
    else:
        whole = card.lay_out(arguments, whole=True)
    shown = msgspec.structs.asdict(_info(operator.broker, opened, trio.current_time(), whole))
    return ApprovalDetails(**shown, long=opened.card.cut, text=msgspec.Raw(arguments))


async def approve(operator: Operator, params: Approve) -> Answered:
    opened = operator.broker.approvals.approve(params.id, _by(operator), params.seen)
    return _answered(opened.id, opened.question, "approved", opened.waiting)


async def deny(operator: Operator, params: ApprovalId) -> Answered:
    taken = operator.broker.approvals.take_back(params.id, _by(operator))
    if taken is not None:
        return _answered(params.id, taken, "denied", 0)
    opened = operator.broker.approvals.deny(params.id, _by(operator))
    return _answered(opened.id, opened.question, "denied", opened.waiting)


async def mute(operator: Operator, params: MuteAgent) -> Empty:
    _check(operator, params.agent)
    operator.broker.approvals.mute(params.agent, _by(operator))
    return Empty()


async def unmute(operator: Operator, params: MuteAgent) -> Unmuted:
    _check(operator, params.agent)
    return Unmuted(agent=params.agent, was_muted=operator.broker.approvals.unmute(params.agent))


def _check(operator: Operator, agent: str) -> None:
    """Raises Failure `no_such_agent`."""
    if agent:
        listing.find_agent(operator.broker, agent)


def _by(operator: Operator) -> By:
    return By(operator.caller.pid, operator.caller.exe, operator.proof)


def _info(broker: Broker, opened: Open, now: float, shown: Card | None = None) -> Approval:
    question, bound = opened.question, opened.question.bound
    shown = shown or opened.card
    return Approval(
        id=opened.id,
        agent=bound.agent,
        session=question.session,
        pid=question.pid,
        exe=question.exe,
        cwd=question.cwd,
        host=question.host,
        server=bound.server,
        runs=question.runs,
        tool=bound.tool,
        name=question.name,
        method=bound.method,
        description=visible(question.description[:BRIEF]),
        risk=question.risk,
        question=question.question,
        because=question.because,
        once_only=question.once_only,
        trustable=trusting.can_be_trusted(broker, bound.server),
        flags=question.flags,
        arguments=tuple(ApprovalArgument(**msgspec.structs.asdict(each)) for each in shown.arguments),
        left_out=shown.left_out,
        cut=shown.cut,
        seen="" if shown.cut else opened.code,
        asked_at=opened.asked_at,
        left=_left(opened.deadline, now),
        waiting=opened.waiting,
    )


def _left(until: float, now: float) -> float | None:
    return until - now if until < inf else None


def _answered(
    name: str, question: Question, outcome: Literal["approved", "denied"], waiting: int
) -> Answered:
    return Answered(
        id=name,
        agent=question.bound.agent,
        server=question.bound.server,
        tool=question.bound.tool,
        name=question.name,
        outcome=outcome,
        waiting=waiting,
    )
