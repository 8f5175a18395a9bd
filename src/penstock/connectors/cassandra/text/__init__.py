"""Names and values as CQL has them in text."""
