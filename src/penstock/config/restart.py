"""Automatic restarts after failures: `penstock.restart.*`.

A connector's settings, with defaults in the worker's file. They are penstock's, so a validation
only reports those that a connector has set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.config.checks import at_least, one_of
from penstock.config.define import INT, LONG, STRING, ConfigDef, Importance, Key, Width

_GROUP: Final = "Automatic Restart"
_LOW: Final = Importance.LOW

POLICY = Key(
    "penstock.restart.policy",
    STRING,
    default="retriable",
    importance=Importance.MEDIUM,
    check=one_of("off", "retriable", "any", ignore_case=True),
    group=_GROUP,
    order=1,
    width=Width.SHORT,
    display_name="Restart Policy",
    doc="Which failures of a connector or task lead to an automatic restart: none ('off', as in "
    "Kafka Connect), those that may be transient, such as an unreachable server or a killed "
    "process ('retriable'), or 'any'.",
)
ATTEMPTS = Key(
    "penstock.restart.attempts",
    INT,
    default=10,
    importance=_LOW,
    check=at_least(-1),
    group=_GROUP,
    order=2,
    width=Width.SHORT,
    display_name="Restart Attempts",
    doc="How often one task, or the connector itself, is restarted within the window before it "
    "stays FAILED; -1: no limit.",
)
BACKOFF = Key(
    "penstock.restart.backoff.ms",
    LONG,
    default=5_000,
    importance=_LOW,
    check=at_least(0),
    group=_GROUP,
    order=3,
    width=Width.SHORT,
    display_name="First Wait",
    doc="Delay before the first restart, in milliseconds; it doubles with each restart within the "
    "window.",
)
BACKOFF_MAX = Key(
    "penstock.restart.backoff.max.ms",
    LONG,
    default=300_000,
    importance=_LOW,
    check=at_least(0),
    group=_GROUP,
    order=4,
    width=Width.SHORT,
    display_name="Longest Wait",
    doc="Maximum delay before a restart, in milliseconds.",
)
WINDOW = Key(
    "penstock.restart.window.ms",
    LONG,
    default=3_600_000,
    importance=_LOW,
    check=at_least(1),
    group=_GROUP,
    order=5,
    width=Width.SHORT,
    display_name="Window",
    doc="How long a restart counts towards penstock.restart.attempts, in milliseconds.",
)

RESTART: Final = ConfigDef(POLICY, ATTEMPTS, BACKOFF, BACKOFF_MAX, WINDOW)


def restart_settings(
    worker: Mapping[str, str], connector: Mapping[str, str | None]
) -> dict[str, str | None]:
    """The settings for a connector: its own override the worker's."""
    names = [key.name for key in RESTART.keys]
    return {
        name: source[name] for source in (worker, connector) for name in names if name in source
    }
