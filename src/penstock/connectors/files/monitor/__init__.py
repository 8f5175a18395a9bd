"""Files of a server that are looked at again and again: what is new in them becomes records."""
