"""Commands for records."""
