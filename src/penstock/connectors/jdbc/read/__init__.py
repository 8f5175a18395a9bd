"""How tables are read, and how their rows become records."""
