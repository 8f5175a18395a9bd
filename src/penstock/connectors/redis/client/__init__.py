"""Servers, connections and pipelines, and their errors."""
