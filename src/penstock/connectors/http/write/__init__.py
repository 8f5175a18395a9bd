"""Records as requests."""
