"""Checks of configurations against a cluster."""
