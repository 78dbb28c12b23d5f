"""Words that several nouns share."""

from __future__ import annotations

from typing import Literal

Risk = Literal["low", "medium", "high"]

Approval = Literal["never", "unless_auto_approved", "always", "deny"]
"""The approval that a policy wants."""
