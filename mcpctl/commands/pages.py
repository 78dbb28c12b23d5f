"""Listings that the daemon answers page by page: tools, resources, prompts."""

from __future__ import annotations

import json

from mcpctl import output
from mcpctl.commands import SLOW, reach
from mcpctl.errors import DONE, CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence
    from typing import Any

    from mcpctl.client import Client

    Row = Callable[[Any], Sequence[object]]

#: Pages after which the daemon is taken to be repeating itself: a server has at most 10,000 tools (b24).
MOST_PAGES = 1000

#: How often a listing is begun that changes while it is read.
MOST_STARTS = 5


class Listing:
    """All pages of one listing."""

    def __init__(self, noun: str, head: tuple[str, ...], row: Row) -> None:
        """`noun`: the method is `<noun>.list`, and the entries are the member of this name in its answer.
        `row` gives the cells of one entry, in the order of `head`."""
        self.noun = noun
        self.head = head
        self.row = row
        self.entries: list[Any] = []
        self.left_out: list[str] = []

    def read(self, mcpd: Client, params: dict[str, str], limit: float) -> None:
        """Read all of it; from the start again when the daemon cannot go on with a changed list."""
        cursor, starts = "", 1
        for _ in range(MOST_PAGES):
            try:
                page = mcpd.call(
                    f"{self.noun}.list", {**params, "cursor": cursor} if cursor else params, limit
                )
            except CallError as error:
                if error.kind != "invalid_params" or not cursor or starts == MOST_STARTS:
                    raise
                self.entries, self.left_out, cursor, starts = [], [], "", starts + 1
                continue
            self.entries += page[self.noun]
            # The reasons belong to the whole listing and may come with every page.
            self.left_out += [reason for reason in page["left_out"] if reason not in self.left_out]
            cursor = page["next_cursor"]
            if not cursor:
                return
        raise CallError("bad_answer", f"cannot read a list of more than {MOST_PAGES} pages")

    def text(self) -> str:
        return json.dumps({self.noun: self.entries, "left_out": self.left_out}, ensure_ascii=False)

    def say(self) -> None:
        if self.entries:
            output.say(output.table(self.head, map(self.row, self.entries)))
        else:
            output.note(f"no {self.noun}")
        for reason in self.left_out:
            output.note(f"left out: {reason}")


def show(listing: Listing, options: Namespace) -> int:
    """List what `--server` and `--agent` leave, for people or for programs."""
    given = {"server": options.server, "agent": options.agent}
    params = {name: value for name, value in given.items() if value}
    with reach(options) as mcpd:
        listing.read(mcpd, params, options.timeout or SLOW)
    if options.json:
        output.say_json(listing.text())
    else:
        listing.say()
    return DONE


def gist(*texts: object) -> str:
    """What something is, in one line: the first line of the first text that says anything."""
    text = next((line for text in texts if (line := str(text).strip().partition("\n")[0])), "")
    return text if len(text) <= 120 else text[:119] + "…"
