"""The settings of source and sink, and what has to hold of several of them together."""
