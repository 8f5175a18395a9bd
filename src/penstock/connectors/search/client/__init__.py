"""Requests to a cluster, with its vendor's client."""
