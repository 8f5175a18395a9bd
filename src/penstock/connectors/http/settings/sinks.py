"""Penstock's own settings for sinks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.api import ConfigInvalid
from penstock.api.settings import (
    LOW,
    Config,
    Group,
    Key,
)
from penstock.connectors.http.settings import shared
from penstock.connectors.http.settings.shared import member, named
from penstock.connectors.http.templates import Style, Template
from penstock.connectors.http.write.plan import Order

_ORDERS: Final = ("partition", "key", "none")
# fmt: off
_PENSTOCK: Final = Group("Penstock", numbered=False)
ORDER: Final = _PENSTOCK.text("penstock.http.order", "partition",
    "Which requests are sent in order: those of a topic partition, those with the same key in "
    "it, or none. Batches always keep the order of their partition.", check=named(*_ORDERS),
    offers=_ORDERS)
IN_FLIGHT: Final = _PENSTOCK.number("penstock.http.max.in.flight", 10,
    "Maximum number of concurrent requests per task, as far as their order allows.", at_least=1,
    at_most=1_000)
MAX_REQUEST: Final = _PENSTOCK.number("penstock.http.max.request.bytes", 0,
    "Maximum size of a request body in bytes: batches are kept smaller, and a larger record is "
    "refused; 0: no limit.", at_least=0, importance=LOW)
DIVIDE: Final = _PENSTOCK.flag("penstock.http.batch.divide", False,
    "Whether to split a batch that is refused with 400, 413 or 422 in halves and resend them, "
    "until only the invalid records are refused. For servers that accept a batch as a whole or "
    "not at all.")
LINGER: Final = _PENSTOCK.number("penstock.http.linger.ms", 10,
    "How long the task waits for more records before it sends those it has.", at_least=0,
    at_most=60_000, importance=LOW)
# fmt: on

SINK_KEYS: Final[tuple[Key[Any], ...]] = (
    *_PENSTOCK, *shared.COMMON,
)  # fmt: skip


def common(config: Config) -> dict[str, Any]:
    """The fields of a plan from these settings."""
    return {
        "order": member(Order, config[ORDER]),
        "in_flight": config[IN_FLIGHT],
        "max_bytes": config[MAX_REQUEST],
        "linger_ms": config[LINGER],
    }


def header_templates(
    pairs: Iterable[tuple[str, str]], style: Style, null: str | None = None
) -> tuple[tuple[Template, Template], ...]:
    """Templates of header names and values. Raises ValueError."""
    return tuple(
        (Template(name, style, null=null), Template(value, style, null=null))
        for name, value in pairs
    )


def header_rule(
    setting: Key[Any], separator: Key[Any] | str, middle: Key[Any] | str, style: Style
) -> Any:
    """A rule that headers can be parsed, and are templates."""

    def text_of(parsed: Mapping[str, object], source: Key[Any] | str) -> str:
        return source if isinstance(source, str) else str(parsed.get(source.name) or "")

    def rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
        text = parsed.get(setting.name) or ""
        try:
            headers: Any = text
            pairs = shared.pairs_of(
                setting.name,
                headers,
                text_of(parsed, separator) or "|",
                text_of(parsed, middle) or ":",
            )
            header_templates(pairs, style)
        except ConfigInvalid as error:
            yield setting.name, str(error)
        except ValueError as error:
            yield setting.name, f"Invalid value for configuration {setting.name}: {error}"

    return rule
