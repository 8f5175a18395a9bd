"""Connections to MongoDB, and their errors."""
