"""How databases are reached: URLs, connections, what errors of drivers mean."""
