"""Listings that the daemon answers page by page: tools, resources, prompts."""

from __future__ import annotations

import json

from mcpctl import output
from mcpctl.errors import CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeVar

    from mcpctl.client import Client

    L = TypeVar("L", bound="Listing")

#: Pages after which the daemon is taken to be repeating itself: a server has at most 10,000 tools (b24).
MOST_PAGES = 1000

#: How often a listing is begun that changes while it is read.
MOST_STARTS = 5


class Listing:
    """All pages of one listing. A noun's own class says how its entries look."""

    noun = ""
    """The method is `<noun>.list`, and the entries are the member of this name in its answer."""
    head: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.left_out: list[str] = []

    def row(self, entry: Any) -> Sequence[object]:
        """The cells of one entry, in the order of `head`."""
        raise NotImplementedError

    def text(self) -> str:
        return json.dumps({self.noun: self.entries, "left_out": self.left_out}, ensure_ascii=False)

    def say(self) -> None:
        if self.entries:
            output.say(output.table(self.head, map(self.row, self.entries)))
        else:
            output.note(f"no {self.noun}")
        for reason in self.left_out:
            output.note(f"left out: {reason}")


def every(kind: type[L], mcpd: Client, params: dict[str, str], limit: float) -> L:
    """The whole listing; from the start again when the daemon cannot go on with a changed list."""
    listing, cursor, starts = kind(), "", 1
    for _ in range(MOST_PAGES):
        try:
            page = mcpd.call(f"{kind.noun}.list", {**params, "cursor": cursor} if cursor else params, limit)
        except CallError as error:
            if error.kind != "invalid_params" or not cursor or starts == MOST_STARTS:
                raise
            listing, cursor, starts = kind(), "", starts + 1
            continue
        listing.entries += page[kind.noun]
        # The reasons belong to the whole listing and may come with every page.
        listing.left_out += [reason for reason in page["left_out"] if reason not in listing.left_out]
        cursor = page["next_cursor"]
        if not cursor:
            return listing
    raise CallError("bad_answer", f"cannot read a list of more than {MOST_PAGES} pages")


def gist(*texts: object) -> str:
    """What something is, in one line: the first line of the first text that says anything."""
    text = next((line for text in texts if (line := str(text).strip().partition("\n")[0])), "")
    return text if len(text) <= 120 else text[:119] + "…"
