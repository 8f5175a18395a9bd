"""Messages of a broker as records."""
