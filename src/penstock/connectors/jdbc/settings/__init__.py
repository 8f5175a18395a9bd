"""The settings of source and sink, and the rules between them."""
