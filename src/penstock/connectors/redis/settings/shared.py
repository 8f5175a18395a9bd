"""Settings and checks common to several connectors."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.api.settings import (
    BOOLEAN,
    HIDDEN,
    INT,
    LOW,
    STRING,
    Check,
    Config,
    Importance,
    Key,
    between,
    checking,
    invalid,
)
from penstock.connectors.redis.write.cells import Charset
from penstock.connectors.redis.write.plan import Limits

_MAX_INT: Final = 2**31 - 1
GROUP: Final = "Redis"


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

PIPELINE_RECORDS: Final = Key(
    "penstock.pipeline.records",
    INT,
    default=2_000,
    importance=LOW,
    check=between(1, 1_000_000),
    doc="Maximum number of commands sent before their replies are read.",
    group=GROUP,
    order=90,
)
PIPELINE_BYTES: Final = Key(
    "penstock.pipeline.bytes",
    INT,
    default=1 << 20,
    importance=LOW,
    check=between(1, _MAX_INT),
    doc="Maximum number of bytes sent before the replies are read, unless a single command is "
    "larger.",
    group=GROUP,
    order=91,
)
PIPELINE_KEYS: Final = (PIPELINE_RECORDS, PIPELINE_BYTES)


def limits_of(config: Config) -> Limits:
    """The size limits of a pipeline."""
    return Limits(config[PIPELINE_RECORDS], config[PIPELINE_BYTES])


def charset_of(name: str) -> Charset:
    """The charset with a valid name."""
    return Charset(name.strip())


def ignored(
    name: str,
    kind: str,
    default: object,
    note: str,
    *,
    importance: Importance = LOW,
    group: str | None = None,
) -> Key[object]:
    """A setting without effect here, accepted with a note."""
    kinds = {"boolean": BOOLEAN, "int": INT, "string": STRING}
    return Key(
        name,
        kinds[kind],
        default=default,
        importance=importance,
        doc=f"{note} Accepted and ignored.",
        group=group,
    )
