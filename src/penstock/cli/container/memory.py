"""The memory limit of the container, and the heap of Spark's JVM that fits into it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from penstock.errors import StartupFailed

BESIDES_MB: Final = 768
"""What a worker needs besides the heap: its own process, the JVM's memory beyond the heap, and
Python processes of quiet slots (docs/deploy.md)."""

SMALLEST_MB: Final = 480
"""Spark requires 450 MB of usable heap to start, and a twentieth of the heap is a survivor
space."""

LARGEST_MB: Final = 4096

_ASKED: Final = "KAFKA_HEAP_OPTS or CONNECT_SPARK_DRIVER_MEMORY"
_SHARE: Final = 4  # a quarter of the limit; the data of tasks is in Python
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_XMX: Final = re.compile(r"-Xmx(\d+)([kmgtKMGT]?)")
_SPARK: Final = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
_UNLIMITED: Final = 1 << 60  # cgroup v1 has no keyword for it, only a large number


def limit_mb(root: Path = Path("/")) -> int | None:
    """The memory limit of this process's cgroup and those above it, version 2 or 1; None without
    one."""
    limits = [int(text) for text in _limits(root) if text.isdigit()]
    limits = [limit for limit in limits if 0 < limit < _UNLIMITED]
    return min(limits) >> 20 if limits else None


def _limits(root: Path) -> list[str]:
    mounted = root / "sys/fs/cgroup"
    files = {mounted / "memory.max", mounted / "memory/memory.limit_in_bytes"}
    own = root / "proc/self/cgroup"
    for line in own.read_text().splitlines() if own.is_file() else []:
        number, controllers, path = line.split(":", 2)
        if number != "0" and "memory" not in controllers.split(","):
            continue
        top, name = (
            (mounted, "memory.max")
            if number == "0"
            else (mounted / "memory", "memory.limit_in_bytes")
        )
        group = top / path.lstrip("/")
        files |= {folder / name for folder in (group, *group.parents) if folder.is_relative_to(top)}
    limits = []
    for file in files:
        try:
            limits.append(file.read_text().strip())
        except OSError:
            continue
    return limits


def java_heap_mb(option: str, variable: str) -> int:
    """The heap of `-Xmx`, in MB. Raises StartupFailed for an option that Java refuses.

    >>> java_heap_mb("-Xmx2G", "KAFKA_HEAP_OPTS"), java_heap_mb("-Xmx536870912", "")
    (2048, 512)
    """
    match = _XMX.fullmatch(option)
    if match is None:
        raise StartupFailed(f"{variable}: '{option}' is not a heap size; write -Xmx1g or -Xmx512m.")
    return int(match[1]) * _UNITS[match[2].lower()] >> 20


def spark_memory_mb(text: str) -> int | None:
    """A size as Spark writes it, in MB; None for other texts. Without a unit it is in MB.

    >>> spark_memory_mb("1g"), spark_memory_mb("512"), spark_memory_mb("much")
    (1024, 512, None)
    """
    match = _SPARK.fullmatch(text.strip())
    if match is None:
        return None
    return int(match[1]) * _UNITS[match[2].lower() or "m"] >> 20


def heap(requested: str | None, limit: int | None) -> str | None:
    """The value of `spark.driver.memory`; None leaves it to its default.

    `limit` is in MB. Raises StartupFailed when heap and worker do not fit into it.
    """
    requested_mb = None if requested is None else spark_memory_mb(requested)
    if requested_mb is not None and requested_mb < SMALLEST_MB:
        raise StartupFailed(
            f"A heap of {requested_mb} MB is requested ({_ASKED}), but Spark needs at least "
            f"{SMALLEST_MB} MB."
        )
    if limit is None:
        return requested
    if requested is None:
        if limit < SMALLEST_MB + BESIDES_MB:
            raise StartupFailed(
                f"The container's memory limit is {limit} MB; a worker needs at least "
                f"{SMALLEST_MB + BESIDES_MB} MB. Raise the limit."
            )
        return f"{max(SMALLEST_MB, min(limit // _SHARE, LARGEST_MB))}m"
    if requested_mb is not None and requested_mb + BESIDES_MB > limit:
        fits = limit - BESIDES_MB
        smaller = f", or request a heap of at most {fits} MB" if fits >= SMALLEST_MB else ""
        raise StartupFailed(
            f"A heap of {requested_mb} MB is requested ({_ASKED}), but the container's memory "
            f"limit is {limit} MB, and a worker needs {BESIDES_MB} MB besides. Raise the limit to "
            f"{requested_mb + BESIDES_MB} MB{smaller}."
        )
    return requested
