"""What a validation finds in the database itself (see `SourceConnector.validate_live`).

It connects once, and nothing is changed: columns are asked for without rows, and privileges are
looked up, or asked for by preparing a statement that is never run. What the tasks would refuse is
found by the code that makes them refuse it. What cannot be known from here is no error: what the
database does not say in time, tables that appear later, topics that a transform renames.
"""
