"""Plugins: lookup by name and alias (`registry`), and search in `plugin.path` (`path`)."""
