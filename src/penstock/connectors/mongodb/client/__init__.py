"""Connections to MongoDB, and what their errors mean."""
