"""The data plane: one Structured Streaming query per task, and the Python stage inside it."""
