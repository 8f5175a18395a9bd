"""Access to databases: URLs, connections, the meaning of drivers' errors."""
