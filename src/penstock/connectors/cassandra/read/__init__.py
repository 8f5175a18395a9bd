"""Rows as records."""
