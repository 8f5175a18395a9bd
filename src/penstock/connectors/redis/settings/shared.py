"""Settings and checks common to several connectors."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.api.settings import (
    HIDDEN,
    LOW,
    Check,
    Config,
    Group,
    checking,
    invalid,
)
from penstock.connectors.redis.write.cells import Charset
from penstock.connectors.redis.write.plan import Limits

_MAX_INT: Final = 2**31 - 1


def _charset_problem(name: str | None) -> str | None:
    try:
        codecs.lookup((name or "").strip())
    except LookupError:
        return f"The charset {name} is unknown"
    return None


@dataclass(frozen=True, slots=True)
class ServersCheck:
    """A check of server names: `find` returns the problem of a value, or None. Messages hide values
    with a user, which may contain a password."""

    description: str
    find: Callable[[Any], str | None]

    def problem(self, name: str, value: Any) -> str | None:
        """See `Check`."""
        text = self.find(value)
        if text is None:
            return None
        shown = ", ".join(value) if isinstance(value, tuple) else value
        return invalid(name, HIDDEN if "@" in str(shown) else shown, text)

    def __str__(self) -> str:
        return self.description


CHARSET_CHECK: Final[Check] = checking("the name of a charset", _charset_problem)

# fmt: off
PIPELINE_KEYS: Final = Group("Redis", importance=LOW, first=90)
PIPELINE_RECORDS: Final = PIPELINE_KEYS.number("penstock.pipeline.records", 2_000,
    "Maximum number of commands sent before their replies are read.", at_least=1, at_most=1_000_000)
PIPELINE_BYTES: Final = PIPELINE_KEYS.number("penstock.pipeline.bytes", 1 << 20,
    "Maximum number of bytes sent before the replies are read, unless a single command is larger.",
    at_least=1, at_most=_MAX_INT)
# fmt: on


def limits_of(config: Config) -> Limits:
    """The size limits of a pipeline."""
    return Limits(config[PIPELINE_RECORDS], config[PIPELINE_BYTES])


def charset_of(name: str) -> Charset:
    """The charset with a valid name."""
    return Charset(name.strip())
