"""The MCP methods that agents may call, one module a noun, their table, and the firewall around them."""
