"""What arrives by itself: events, messages and requests of others."""
