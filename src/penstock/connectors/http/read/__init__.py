"""Polled responses as records."""
