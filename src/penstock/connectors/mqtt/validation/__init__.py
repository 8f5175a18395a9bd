"""What a broker says of a configuration."""
