"""Avro: schemas as trees, the Connect schemas they mean, and decoding of data."""
