"""What servers offer, and how it is shown: pure functions over immutable snapshots."""
