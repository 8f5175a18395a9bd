"""Built-in converters: Kafka's bytes to Connect values and back, a column at a time."""
