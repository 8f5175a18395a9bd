"""What a look at the server says of a configuration."""
