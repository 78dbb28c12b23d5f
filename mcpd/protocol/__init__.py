"""MCP as data: envelopes, lines, revisions and the shapes that mcpd reads.

Pure: bytes and values in, bytes and values out. Payloads stay JSON text
(`msgspec.Raw`) and are read only where something depends on them.
"""
