"""What runs in the worker: which slots there are, which tasks are placed on them, and what they
say."""
