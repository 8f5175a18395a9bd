"""Spark itself: its session, its JVM, its cluster."""
