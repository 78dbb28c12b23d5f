"""mcpctl: the command line of mcpd. Standard library only, so that it starts fast."""

from __future__ import annotations

__version__ = "0.1.0"
