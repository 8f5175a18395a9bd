"""The settings of connectors, under the names of Confluent's (connectors.md §13)."""
