"""CQL names, and values in text."""
