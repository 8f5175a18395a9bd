"""Settings of all converters (kafka-connect.md §9.1)."""

from __future__ import annotations

from typing import Final

from penstock.config.checks import one_of
from penstock.config.define import LOW, STRING, ConfigDef, Key

CONVERTER_TYPE: Final[Key[str | None]] = Key(
    "converter.type",
    STRING,
    default=None,
    importance=LOW,
    doc="How this converter will be used.",
    check=one_of("key", "value", "header"),
)
"""Required in Kafka Connect, where the runtime always sets it; here `use` replaces it."""

ANY_CONVERTER: Final = ConfigDef(CONVERTER_TYPE)
"""The settings of a converter that adds none."""
