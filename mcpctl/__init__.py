"""mcpctl: the command line of mcpd. Standard library only, and little of it: it has to start fast."""

#: The version of this client; released together with the daemon's.
__version__ = "0.1.0"
