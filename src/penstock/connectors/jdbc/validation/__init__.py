"""Validates a configuration against the database itself (see `SourceConnector.validate_live`).

A validation connects once and changes nothing: it selects columns without rows, and looks up
privileges or prepares a statement that is never run. Tasks make the same checks with the same code.
Unknowns are not errors: answers that take too long, tables that appear later, topics that a
transform renames.
"""
