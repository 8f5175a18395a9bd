"""Boundaries and names of files: functions of the records alone."""
