"""Servers, connections and pipelines, and what went wrong with them."""
