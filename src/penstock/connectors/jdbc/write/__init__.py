"""Converts records to rows of tables, and writes them in each database's own way."""
