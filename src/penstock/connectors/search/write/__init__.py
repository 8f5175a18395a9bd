"""Records as documents, and bulk requests."""
