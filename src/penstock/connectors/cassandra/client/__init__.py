"""Connections to a cluster, and what its errors mean."""
