"""Settings of all converters (kafka-connect.md §9.1)."""

from __future__ import annotations

from typing import Final

from penstock.config.declare import choice
from penstock.config.define import LOW, ConfigDef

# fmt: off
CONVERTER_TYPE: Final = choice("converter.type", None, ("key", "value", "header"),
    "How this converter will be used.", importance=LOW)
# fmt: on
"""Required in Kafka Connect, where the runtime always sets it; here `use` replaces it."""

ANY_CONVERTER: Final = ConfigDef(CONVERTER_TYPE)
"""The settings of a converter that adds none."""
