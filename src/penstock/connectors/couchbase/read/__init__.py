"""Changed documents as records."""
