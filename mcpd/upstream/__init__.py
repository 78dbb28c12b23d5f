"""The live side of servers: connections, their opening, their loop, and who owns them all."""
