"""Plugins: the names and aliases they go by (`registry`), and folders that hold them (`path`)."""
