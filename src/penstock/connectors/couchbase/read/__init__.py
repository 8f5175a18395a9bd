"""Documents that have changed, as records."""
