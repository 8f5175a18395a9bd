"""Offsets of source connectors: in a topic (`store`), in a file (`file`), over REST (`admin`)."""
