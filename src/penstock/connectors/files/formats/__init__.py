"""Formats of files: how records become bytes and bytes records."""
