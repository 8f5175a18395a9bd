"""The worker's side: its slots, the tasks placed on them, and what they report."""
