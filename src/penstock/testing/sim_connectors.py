"""What the connectors of a simulated cluster are configured with, and which tasks they plan."""

from __future__ import annotations

from penstock.cluster.records import RawProps
from penstock.cluster.recovery import NO_RESTARTS, Causes, RestartPolicy


def config(connector: str, tasks: int, version: int = 0) -> dict[str, str | None]:
    """A configuration that makes the simulated connector plan so many tasks."""
    return {"name": connector, "tasks": str(tasks), "version": str(version)}


def planned(properties: RawProps, more: int = 0) -> tuple[RawProps, ...]:
    """The tasks the simulated connector plans. Every third version changes no task."""
    version = int(properties["version"] or 0) // 3
    count = int(properties["tasks"] or 0) + (more if asks_again_ms(properties) else 0)
    return tuple({"task": str(number), "version": str(version)} for number in range(count))


def asks_again_ms(properties: RawProps) -> int | None:
    """How often the simulated connector wants to be asked for its tasks: one in three does."""
    return 15_000 if (properties["name"] or "").endswith(("3", "6", "9")) else None


def restarts(properties: RawProps) -> RestartPolicy:
    """How the simulated connector is restarted: every second one is, three times in a minute."""
    if not (properties.get("name") or "").endswith(("2", "4", "6", "8")):
        return NO_RESTARTS
    return RestartPolicy(Causes.RETRIABLE, 3, backoff_ms=1_000, window_ms=60_000)
