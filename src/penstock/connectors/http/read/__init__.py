"""Answers to polls as records."""
