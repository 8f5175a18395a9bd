"""Indices as records."""
