"""JSON as MongoDB writes and reads it."""
