"""The settings of configurations."""
