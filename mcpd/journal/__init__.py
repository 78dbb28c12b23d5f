"""The journal: what was asked of servers, decided and changed, in journal.db (n12).

`writer` is the owner that collects entries and writes them off the request path, `store` the file. What a
row says is in `entry`, how an entry becomes one in `rows` and `shape`; `schema` has the tables, `search`
finds rows again.
"""

from mcpd.journal.entry import About, Entry
from mcpd.journal.writer import Journal

__all__ = ["About", "Entry", "Journal"]
