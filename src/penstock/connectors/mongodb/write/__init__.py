"""Turns records into writes, and sends these to collections."""
