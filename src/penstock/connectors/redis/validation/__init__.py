"""Checks of a configuration against the server."""
