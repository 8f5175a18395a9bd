"""Requests to a cluster, by its vendor's client."""
