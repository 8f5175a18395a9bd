"""Files of a server that are monitored: their new content becomes records."""
