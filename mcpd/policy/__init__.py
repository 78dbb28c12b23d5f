"""What a call may do: risk, approval, allowlists. Pure; every answer says why."""
