"""Databases behind the jar of a JDBC driver, in a JVM inside the Python process."""
