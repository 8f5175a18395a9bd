"""Records into writes, and writes into collections."""
