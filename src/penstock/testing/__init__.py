"""Test tools for authors of connectors and for tests with clusters of workers."""
