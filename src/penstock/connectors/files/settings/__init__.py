"""What configurations may say, under the names of Confluent's connectors (connectors.md §13)."""
