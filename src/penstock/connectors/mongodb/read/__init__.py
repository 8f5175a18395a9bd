"""Turns change events, and documents that exist already, into records."""
