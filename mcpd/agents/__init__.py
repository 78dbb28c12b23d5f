"""MCP towards agents: one session for each attached process."""
