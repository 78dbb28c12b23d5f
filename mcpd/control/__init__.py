"""The control socket: what the operator asks and changes (owner only)."""
