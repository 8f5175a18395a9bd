"""What the settings of all converters have in common (reference §9.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.config.define import LOW, STRING, ConfigDef, Key, invalid


@dataclass(frozen=True, slots=True)
class OneOf:
    """A `Check` for a text that is one of a few, worded as Kafka's `ValidString`."""

    choices: tuple[str, ...]
    any_case: bool = False

    def problem(self, name: str, value: Any) -> str | None:
        if value in self.choices:
            return None
        if self.any_case and isinstance(value, str) and value.upper() in self.choices:
            return None
        manner = " (case insensitive)" if self.any_case else ""
        return invalid(name, value, f"String must be one of{manner}: {', '.join(self.choices)}")

    def __str__(self) -> str:
        return f"{'(case insensitive) ' if self.any_case else ''}[{', '.join(self.choices)}]"


CONVERTER_TYPE: Final[Key[str | None]] = Key(
    "converter.type",
    STRING,
    default=None,
    importance=LOW,
    doc="How this converter will be used.",
    check=OneOf(("key", "value", "header")),
)
"""Required in Kafka Connect, where the runtime always sets it; here `is_key` says it."""

ANY_CONVERTER: Final = ConfigDef(CONVERTER_TYPE)
"""The settings of a converter that has none of its own."""
