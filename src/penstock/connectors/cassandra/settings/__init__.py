"""The settings, and the plans they describe."""
