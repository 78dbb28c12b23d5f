"""mcpd: one daemon that owns every MCP connection of a user and every decision about them."""

__version__ = "0.1.0"
