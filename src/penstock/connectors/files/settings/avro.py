"""The settings of Confluent's AvroData that sinks have, for Avro and for the names and the Avro
schema of Parquet files."""

from __future__ import annotations

from typing import Final

from penstock.api.settings import (
    LOW,
    Config,
    Group,
)
from penstock.connectors.files.formats.avro import AvroOptions

# fmt: off
AVRO_KEYS: Final = Group("Schema", importance=LOW)
ENHANCED: Final = AVRO_KEYS.flag("enhanced.avro.schema.support", True,
    "Whether strings that were enums in Avro are written as enums again.")
METADATA: Final = AVRO_KEYS.flag("connect.meta.data", True,
    "Whether Avro schemas contain what Avro cannot express, as properties `connect.*`.")
OPTIONAL_KEYS: Final = AVRO_KEYS.flag("allow.optional.map.keys", False,
    "Whether maps whose keys are optional strings are maps in Avro, instead of arrays of entries.")
SCRUB: Final = AVRO_KEYS.flag("scrub.invalid.names", False,
    "Whether characters that Avro does not allow in names are replaced by underscores, in Avro "
    "and Parquet files. Otherwise Avro files cannot be written with such names; Parquet files "
    "keep them.")
# fmt: on


def avro_options(config: Config) -> AvroOptions:
    """How schemas are written to Avro and Parquet files."""
    return AvroOptions(
        metadata=config[METADATA],
        enums=config[ENHANCED],
        scrub=config[SCRUB],
        optional_keys=config[OPTIONAL_KEYS],
    )
