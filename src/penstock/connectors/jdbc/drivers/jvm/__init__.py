"""Databases that are reached by a JDBC driver's jar, in a JVM inside the Python process."""
