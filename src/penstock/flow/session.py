"""The worker's one SparkSession: started in the background, warmed up, stopped at the end."""

from __future__ import annotations

import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock import jars
from penstock.errors import StartupFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOM_MB: Final = 64

SLOTS: Final = 64
"""Task slots of a local session: many more than cores, so that tasks which wait for their target
do not keep the others from running (design §4.7b)."""

_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.master": f"local[{SLOTS}]",
    "spark.app.name": "penstock",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xss4m",
    "spark.python.daemon.module": "penstock.flow.daemon",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.streaming.pollingDelay": "100ms",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming."
    "checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.stopTimeout": "10s",
    "spark.python.worker.reuse": "true",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
}


_LOGGING: Final = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"


def start(
    settings: Mapping[str, str], say: Callable[[str], None] = lambda text: None
) -> SparkSession:
    """A new session with our defaults and the user's `spark.*` settings over them.

    Blocks for seconds. Raises StartupFailed when Java is missing or too old, or Spark does not
    start.
    """
    java = jars.java()
    archives = sorted(jars.folder("spark", say).glob("*.jar"))
    os.environ.setdefault("JAVA_HOME", str(Path(java).resolve().parent.parent))
    os.environ["PYSPARK_PYTHON"] = sys.executable  # or executors pick another one
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    from pyspark.sql import SparkSession

    from penstock.flow.datasource import PenstockSource

    effective = {**_DEFAULTS, **settings}
    own_jars = ",".join(map(str, archives))
    more_jars = settings.get("spark.jars")
    effective["spark.jars"] = f"{own_jars},{more_jars}" if more_jars else own_jars
    options = effective["spark.driver.extraJavaOptions"]
    if "log4j2.configurationFile" not in options:
        effective["spark.driver.extraJavaOptions"] = f"{options} {_LOGGING}"
    effective.setdefault("spark.local.dir", str(scratch() / "spark"))
    effective.setdefault("spark.sql.warehouse.dir", str(scratch() / "warehouse"))
    builder = SparkSession.builder
    for name, value in effective.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:  # py4j and PySpark raise what they like here
        raise StartupFailed(f"Spark did not start: {error}") from error
    session.dataSource.register(PenstockSource)
    return session


def scratch() -> Path:
    """A folder for what may be lost at any time: in memory where the machine has such a place."""
    return _scratch_root() / f"penstock-{os.getpid()}"


@functools.cache
def _scratch_root() -> Path:
    """In memory, or else on disk: the first place with room. Raises StartupFailed if none has."""
    places = [Path("/dev/shm"), Path(tempfile.gettempdir())]
    for place in places:
        if os.access(place, os.W_OK) and shutil.disk_usage(place).free >= _ROOM_MB << 20:
            return place
    raise StartupFailed(
        f"No room for Spark's scratch files: {' and '.join(map(str, places))} have less than "
        f"{_ROOM_MB} MB free. Make room, or set TMPDIR to a folder that has some."
    )
