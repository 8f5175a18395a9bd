"""The REST API: a table of routes over the worker's state and its operations."""
