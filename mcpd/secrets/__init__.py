"""The values that mcpd holds for servers, and that they go nowhere else."""
