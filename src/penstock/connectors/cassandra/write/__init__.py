"""Records as statements."""
