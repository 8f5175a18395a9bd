"""Turns change events and existing documents into records."""
