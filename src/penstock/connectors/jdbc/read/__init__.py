"""Reads tables, and converts their rows to records."""
