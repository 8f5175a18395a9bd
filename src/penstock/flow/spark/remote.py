"""Spark settings for a cluster in `spark.master`; docs/spark-cluster.md is for its users.

The worker is the driver (deploy mode `client`): it plans and commits, executors do the rest. They
must reach the driver, get our code (`shipping`) and run it with a Python that has our dependencies.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from penstock.errors import StartupFailed
from penstock.flow.spark import shipping

log = logging.getLogger(__name__)

_DEFAULTS: Final[Mapping[str, str]] = {
    # A batch's partition is retried once: its executor may have died. Further retries would only
    # repeat what a failing connector wrote before it failed.
    "spark.task.maxFailures": "2",
    "spark.executorEnv.PYTHONWARNINGS": "ignore",
}

_LISTS: Final = ("spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles")
"""Settings that are lists of files on the worker's machine."""

_MASTER_WAIT_S: Final = 30.0
_CONNECT_S: Final = 5.0


def is_remote(master: str) -> bool:
    """Whether `spark.master` runs executors as separate processes."""
    return master != "local" and not master.startswith("local[")


def refuse(settings: Mapping[str, str]) -> None:
    """Raises StartupFailed for settings that would break a promise or cannot work."""
    if settings.get("spark.speculation", "false").strip().lower() == "true":
        raise StartupFailed(
            "spark.speculation=true is refused: Spark would run a slow task's batch a second time "
            "while the first still runs, and its records would be written twice. Remove "
            "'spark.speculation' or set it to 'false'."
        )
    mode = settings.get("spark.submit.deployMode", "client").strip().lower()
    if mode != "client":
        raise StartupFailed(
            f"spark.submit.deployMode={mode} is refused: the worker itself is the Spark driver, "
            "wherever it runs. Remove 'spark.submit.deployMode' or set it to 'client'."
        )


def settings_for(
    master: str, settings: Mapping[str, str], folder: Path, roots: Sequence[str] = ()
) -> tuple[dict[str, str], str]:
    """Spark's settings for a cluster, and the Python that its executors run. Executors also get the
    `roots` of `plugin.path`.

    `settings` are the user's and take precedence. Creates `folder`, where the JVM runs, with the
    files it needs. Raises StartupFailed when a standalone master does not answer in time.
    """
    effective = {**_DEFAULTS, **settings}
    if master.startswith("spark://"):
        effective.setdefault("spark.driver.host", _reach(master))
        if "spark.cores.max" not in settings:
            log.info(
                "spark.cores.max is not set: this worker uses every core of the Spark cluster, "
                "and leaves none for other workers"
            )
    folder.mkdir(parents=True, exist_ok=True)
    shipment = shipping.pack(folder, roots=roots)
    if shipment.left_out:
        log.info(
            "not sent to executors because of compiled parts, so their Python (spark.archives, "
            "spark.pyspark.python) must have it: %s",
            ", ".join(shipment.left_out),
        )
    for name in _LISTS:
        if effective.get(name):
            effective[name] = ",".join(map(_absolute, effective[name].split(",")))
    effective["spark.files"] = _joined(",", str(shipment.archive), effective.get("spark.files"))
    path = "spark.executorEnv.PYTHONPATH"
    effective[path] = _joined(":", shipment.archive.name, effective.get(path))
    python = (
        settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    )
    return effective, python


def _reach(master: str) -> str:
    """The local address that reaches the first master that answers."""
    places: list[tuple[str, int]] = []
    for text in master.removeprefix("spark://").split(","):
        match = re.fullmatch(r"(.+):(\d+)", text.strip())
        if match is None:
            raise StartupFailed(
                f"spark.master={master} is not an address of a Spark standalone master; its "
                "format is spark://host:port, or spark://host1:port1,host2:port2."
            )
        places.append((match[1].strip("[]"), int(match[2])))
    deadline = time.monotonic() + _MASTER_WAIT_S
    pause = threading.Event()
    while True:
        for host, port in places:
            try:
                with socket.create_connection((host, port), _CONNECT_S) as connection:
                    own = str(connection.getsockname()[0])
                    return f"[{own}]" if ":" in own else own
            except OSError as error:
                reason = f"{host}:{port}: {error.strerror or error}"
        if time.monotonic() >= deadline:
            raise StartupFailed(
                f"No Spark master answers at spark.master={master}, tried for "
                f"{_MASTER_WAIT_S:.0f} s; the last error was {reason}. Is it running, is the "
                "address right, and does a firewall let this machine through?"
            )
        pause.wait(1)


def _absolute(path: str) -> str:
    """A file's absolute path, for the driver's JVM, which runs in another folder."""
    path = path.strip()
    return path if not path or "://" in path or ":/" in path else os.path.abspath(path)


def _joined(separator: str, first: str, more: str | None) -> str:
    return f"{first}{separator}{more}" if more else first
