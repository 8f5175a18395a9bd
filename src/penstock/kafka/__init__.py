"""Everything that talks to Kafka: logs, group, admin, clients, and the embedded broker."""
