"""Converters that keep their schemas in a Schema Registry: Avro, JSON Schema, Protobuf."""
