"""The settings, and the plans and options they describe."""
