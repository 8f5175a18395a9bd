"""Records as messages of a broker."""
