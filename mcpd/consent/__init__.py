"""What a person has agreed to or switched, kept across restarts in state.db."""
