"""Automatic restarts after failures: `penstock.restart.*`.

A connector's settings, with defaults in the worker's file. They are penstock's, so a validation
only reports those that a connector has set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.config.declare import Group
from penstock.config.define import LOW, MEDIUM, ConfigDef, Importance, Width

_LOW: Final = Importance.LOW

# fmt: off
_GROUP: Final = Group("Automatic Restart", importance=LOW)
POLICY = _GROUP.choice("penstock.restart.policy", "retriable", ("off", "retriable", "any"),
    "Which failures of a connector or task lead to an automatic restart: none ('off', as in "
    "Kafka Connect), those that may be transient, such as an unreachable server or a killed "
    "process ('retriable'), or 'any'.", ignore_case=True, importance=MEDIUM, width=Width.SHORT,
    label="Restart Policy")
ATTEMPTS = _GROUP.number("penstock.restart.attempts", 10,
    "How often one task, or the connector itself, is restarted within the window before it stays "
    "FAILED; -1: no limit.", at_least=-1, width=Width.SHORT, label="Restart Attempts")
BACKOFF = _GROUP.long("penstock.restart.backoff.ms", 5_000,
    "Delay before the first restart, in milliseconds; it doubles with each restart within the "
    "window.", at_least=0, width=Width.SHORT, label="First Wait")
BACKOFF_MAX = _GROUP.long("penstock.restart.backoff.max.ms", 300_000,
    "Maximum delay before a restart, in milliseconds.", at_least=0, width=Width.SHORT,
    label="Longest Wait")
WINDOW = _GROUP.long("penstock.restart.window.ms", 3_600_000,
    "How long a restart counts towards penstock.restart.attempts, in milliseconds.", at_least=1,
    width=Width.SHORT, label="Window")
# fmt: on

RESTART: Final = ConfigDef(*_GROUP)


def restart_settings(
    worker: Mapping[str, str], connector: Mapping[str, str | None]
) -> dict[str, str | None]:
    """The settings for a connector: its own override the worker's."""
    names = [key.name for key in RESTART.keys]
    return {
        name: source[name] for source in (worker, connector) for name in names if name in source
    }
