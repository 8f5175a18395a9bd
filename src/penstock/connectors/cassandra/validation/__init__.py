"""Checks of a configuration against the cluster."""
