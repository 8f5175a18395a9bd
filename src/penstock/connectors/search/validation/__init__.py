"""Configurations against a cluster."""
