"""The journal: what was asked of servers, decided and changed, in journal.db (n12).

`entry` is what one row says, `shape` what it keeps of arguments, `writer` the owner that collects entries and
writes them off the request path, `store` the file.
"""

from mcpd.journal.entry import Entry
from mcpd.journal.writer import Journal

__all__ = ["Entry", "Journal"]
