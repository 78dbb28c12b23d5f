"""The second factor: kept as a hash, over restarts; guessing is slow (n06)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpd.consent.factor import PAUSE, TRIES, Factor
from mcpd.consent.store import Store
from mcpd.errors import Failure

RIGHT = "correct horse battery"


async def test_it_is_kept_and_checked(tmp_path: Path, real_clock: None) -> None:
    store = Store(tmp_path / "state.db")
    factor = Factor(store)
    assert not factor.is_set
    assert not await factor.check("")
    await factor.set(RIGHT)
    assert (factor.is_set, await factor.check(RIGHT), await factor.check("wrong")) == (True, True, False)
    again = Factor(store)
    assert (again.is_set, again.set_at > 0, await again.check(RIGHT)) == (True, True, True)
    again.remove()
    assert not again.is_set
    assert not Factor(store).is_set
    store.close()
    assert RIGHT.encode() not in (tmp_path / "state.db").read_bytes()


async def test_another_takes_its_place(tmp_path: Path, real_clock: None) -> None:
    factor = Factor(Store(tmp_path / "state.db"))
    await factor.set(RIGHT)
    await factor.set("another one")
    assert (await factor.check(RIGHT), await factor.check("another one")) == (False, True)


@pytest.mark.parametrize("passphrase", ["", "seven77", "x" * 1025])
async def test_what_is_no_passphrase_is_refused(tmp_path: Path, real_clock: None, passphrase: str) -> None:
    factor = Factor(Store(tmp_path / "state.db"))
    with pytest.raises(Failure) as refused:
        await factor.set(passphrase)
    assert refused.value.kind == "invalid_params"
    assert not factor.is_set


async def test_after_five_wrong_ones_the_next_has_to_wait(tmp_path: Path, real_clock: None) -> None:
    now = [100.0]
    factor = Factor(Store(tmp_path / "state.db"), lambda: now[0])
    await factor.set(RIGHT)
    for _ in range(TRIES):
        assert not await factor.check("wrong")
    with pytest.raises(Failure) as refused:
        await factor.check(RIGHT)
    assert refused.value.kind == "busy"
    now[0] += PAUSE
    assert await factor.check(RIGHT)
    assert not await factor.check("wrong"), "and one wrong one is no reason to wait"
    assert await factor.check(RIGHT)
