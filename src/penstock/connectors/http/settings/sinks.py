"""Penstock's own settings for sinks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.api import ConfigInvalid
from penstock.api.settings import BOOLEAN, INT, LOW, MEDIUM, STRING, Config, Key, at_least, between
from penstock.connectors.http.settings import shared
from penstock.connectors.http.settings.shared import OWN, key, member, named
from penstock.connectors.http.templates import Style, Template
from penstock.connectors.http.write.plan import Order

_ORDERS: Final = ("partition", "key", "none")
ORDER: Final = key(
    "penstock.http.order", STRING, "partition", MEDIUM, OWN,
    "Which requests are sent in order: those of a topic partition, those with the same key in it, "
    "or none. Batches always keep the order of their partition.",
    named(*_ORDERS), _ORDERS,
)  # fmt: skip
IN_FLIGHT: Final = key(
    "penstock.http.max.in.flight", INT, 10, MEDIUM, OWN,
    "Maximum number of concurrent requests per task, as far as their order allows.",
    between(1, 1_000),
)  # fmt: skip
MAX_REQUEST: Final = key(
    "penstock.http.max.request.bytes", INT, 0, LOW, OWN,
    "Maximum size of a request body in bytes: batches are kept smaller, and a larger record is "
    "refused; 0: no limit.", at_least(0),
)  # fmt: skip
DIVIDE: Final = key(
    "penstock.http.batch.divide", BOOLEAN, False, MEDIUM, OWN,
    "Whether to split a batch that is refused with 400, 413 or 422 in halves and resend them, "
    "until only the invalid records are refused. For servers that accept a batch as a whole or not "
    "at all.",
)  # fmt: skip
LINGER: Final = key(
    "penstock.http.linger.ms", INT, 10, LOW, OWN,
    "How long the task waits for more records before it sends those it has.", between(0, 60_000),
)  # fmt: skip

SINK_KEYS: Final[tuple[Key[Any], ...]] = (
    ORDER, IN_FLIGHT, MAX_REQUEST, DIVIDE, LINGER, *shared.COMMON,
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
