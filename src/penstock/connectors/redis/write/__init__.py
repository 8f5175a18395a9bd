"""Records into commands."""
