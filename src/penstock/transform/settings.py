"""Settings of several transforms, and checks with Kafka Connect's messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock import KAFKA_VERSION
from penstock.api.plugin import Plugin
from penstock.config.declare import flag
from penstock.config.define import ConfigDef

PACKAGE: Final = "org.apache.kafka.connect.transforms"

# fmt: off
REPLACE_NULL: Final = flag("replace.null.with.default", True,
    "Whether a null field with a default is read as its default (true) or as null.")
# fmt: on

PAIRS: Final = "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"
"""How Kafka Connect describes settings such as `spec` and `renames`."""


def plugin(name: str, config: ConfigDef) -> Plugin:
    """The description of a built-in transform or predicate, by its name inside the package."""
    return Plugin(class_name=f"{PACKAGE}.{name}", version=KAFKA_VERSION, config=config)


@dataclass(frozen=True, slots=True)
class Entries:
    """A `Check` of a list; its message is from `find`."""

    description: str
    find: Callable[[Sequence[str] | None], str | None]

    def problem(self, name: str, value: Any) -> str | None:
        return self.find(value)

    def __str__(self) -> str:
        return self.description
