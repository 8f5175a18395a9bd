"""Converters that keep their schemas in a Schema Registry: Avro, JSON Schema and Protobuf.

`framed` is what they share: it finds schemas, keeps what is compiled, and loops over a batch. A
format has a module with its converter and settings, and beside it:

    _names     the names in Confluent's mapping
    _connect   the format's schemas as Connect's
    _schema    Connect's schemas as the format's
    _read      its data as Connect's values
    _write     Connect's values as its data

Those of Avro that read, and its names, are in `penstock.data.avro`, for files. The values of JSON
Schema are those of `penstock.convert.json_read` and `json_write`, with a few differences.
"""
