"""Waiting for a slot, as whoever sends a request does."""

from __future__ import annotations

import trio

from mcpd.transport.pending import Slot


async def outcome(slot: Slot) -> bytes:
    """The result's JSON text. Raises what the slot was settled with, and Cancelled."""
    if slot.outcome is None:
        slot.waiter = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(slot.abandon)
    return slot.result()
