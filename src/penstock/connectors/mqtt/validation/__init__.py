"""Checks of a configuration against the broker."""
