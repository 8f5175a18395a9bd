"""The host of Java plugins: a JVM around Kafka Connect's `Worker` (decision 26)."""
