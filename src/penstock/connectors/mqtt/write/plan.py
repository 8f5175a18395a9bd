"""The plan of a sink task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """The plan of a sink task."""

    targets: Mapping[str, str]
    """Patterns of MQTT topics by Kafka topics."""
    target: str | None
    """The pattern for all other topics; None: their records are refused."""
    qos: int
    retain: bool
    headers: bool
    retry_s: float
    window: int
    ignores_errors: bool = False
    """Log and skip records that the broker refuses (Lenses' NOOP)."""
