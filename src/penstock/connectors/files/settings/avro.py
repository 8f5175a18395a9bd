"""The settings of Confluent's AvroData that sinks have, for Avro and for the names and the Avro
schema of Parquet files."""

from __future__ import annotations

from typing import Final

from penstock.api.settings import BOOLEAN, LOW, STRING, Config, Key, checking
from penstock.connectors.files.formats.avro import AvroOptions

_GROUP: Final = "Schema"

ENHANCED: Final = Key(
    "enhanced.avro.schema.support",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether strings that were enums in Avro are written as enums again.",
    group=_GROUP,
    order=1,
)
METADATA: Final = Key(
    "connect.meta.data",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether Avro schemas contain what Avro cannot express, as properties `connect.*`.",
    group=_GROUP,
    order=2,
)
OPTIONAL_KEYS: Final = Key(
    "allow.optional.map.keys",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether maps whose keys are optional strings are maps in Avro, instead of arrays of "
    "entries.",
    group=_GROUP,
    order=3,
)
SCRUB: Final = Key(
    "scrub.invalid.names",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether characters that Avro does not allow in names are replaced by underscores, in Avro "
    "and Parquet files. Otherwise Avro files cannot be written with such names; Parquet files keep "
    "them.",
    group=_GROUP,
    order=4,
)


def _storage_problem(name: str | None) -> str | None:
    if not name or name.startswith("io.confluent.connect."):
        return None
    return "Only Confluent's own storage classes are supported; remove the setting"


STORAGE_CLASS: Final = Key(
    "storage.class",
    STRING,
    default=None,
    importance=LOW,
    check=checking("a class of Confluent's", _storage_problem),
    doc="The class of Confluent's connector that stores files; the connector decides.",
    group="Storage",
    order=5,
)

AVRO_KEYS: Final[tuple[Key[object], ...]] = (ENHANCED, METADATA, OPTIONAL_KEYS, SCRUB)


def avro_options(config: Config) -> AvroOptions:
    """How schemas are written to Avro and Parquet files."""
    return AvroOptions(
        metadata=config[METADATA],
        enums=config[ENHANCED],
        scrub=config[SCRUB],
        optional_keys=config[OPTIONAL_KEYS],
    )
