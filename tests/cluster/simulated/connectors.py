"""The connectors of a simulated cluster: configurations, and the tasks they plan."""

from __future__ import annotations

from penstock.cluster.records import RawProps
from penstock.cluster.recovery import NO_RESTARTS, Causes, RestartPolicy


def config(connector: str, tasks: int, version: int = 0) -> dict[str, str | None]:
    """A configuration with which the simulated connector plans this number of tasks."""
    return {"name": connector, "tasks": str(tasks), "version": str(version)}


def planned(properties: RawProps, extra_tasks: int = 0) -> tuple[RawProps, ...]:
    """The tasks the simulated connector plans. Every third version changes no task."""
    version = int(properties["version"] or 0) // 3
    count = int(properties["tasks"] or 0) + (extra_tasks if replan_ms(properties) else 0)
    return tuple({"task": str(number), "version": str(version)} for number in range(count))


def replan_ms(properties: RawProps) -> int | None:
    """How often the simulated connector replans its tasks; one in three does."""
    return 15_000 if (properties["name"] or "").endswith(("3", "6", "9")) else None


def restarts(properties: RawProps) -> RestartPolicy:
    """Restarts of the simulated connector: three a minute, for every second connector."""
    if not (properties.get("name") or "").endswith(("2", "4", "6", "8")):
        return NO_RESTARTS
    return RestartPolicy(Causes.RETRIABLE, 3, backoff_ms=1_000, window_ms=60_000)
