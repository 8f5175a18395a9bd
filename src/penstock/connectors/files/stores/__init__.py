"""Stores of files, behind the interface in `store`."""
