"""What runs in Spark's Python workers: the stage of a slot, and the connector tasks it hosts."""
