"""Converters with a Schema Registry: Avro, JSON Schema, Protobuf."""
