"""Streams and keys into records."""
