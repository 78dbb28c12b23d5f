"""`passphrase.*`: the second factor is set, shown and taken away (n06)."""

from __future__ import annotations

from mcpd.api import Empty, Params
from mcpd.api.passphrase import Factor, Passphrase
from mcpd.control.operator import Operator
from mcpd.errors import Failure


async def status(operator: Operator, params: Params) -> Factor:
    return _told(operator)


async def prove(operator: Operator, params: Passphrase) -> Empty:
    """Raises Failure `refused` for a wrong one and where there is none, `busy`."""
    factor = operator.broker.factor
    if not factor.is_set:
        raise Failure("refused", "no passphrase is set", hint="mcpctl passphrase set")
    operator.proven = await factor.check(params.passphrase)
    if not operator.proven:
        raise Failure("refused", "the passphrase is wrong")
    return Empty()


async def put(operator: Operator, params: Passphrase) -> Factor:
    """Raises Failure `factor_needed` where the one that is set was not shown, and as `Factor.set` does."""
    _check_shown(operator)
    await operator.broker.factor.set(params.passphrase)
    return _told(operator)


async def remove(operator: Operator, params: Params) -> Factor:
    """Raises Failure `factor_needed` where it was not shown, `not_writable`."""
    _check_shown(operator)
    operator.broker.factor.remove()
    return _told(operator)


def _check_shown(operator: Operator) -> None:
    """Whoever replaces the passphrase has to know it, wherever the request comes from."""
    if operator.broker.factor.is_set and not operator.proven:
        raise Failure(
            "factor_needed",
            "cannot change the passphrase without the one that is set",
            hint="mcpctl asks for it at a terminal",
        )


def _told(operator: Operator) -> Factor:
    factor = operator.broker.factor
    return Factor(is_set=factor.is_set, set_at=factor.set_at)
