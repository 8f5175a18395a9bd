"""The worker's one SparkSession: started in the background, warmed up, stopped at the end."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock import jars
from penstock.errors import StartupFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    "spark.log.level": "ERROR",
}


def start(
    settings: Mapping[str, str], say: Callable[[str], None] = lambda text: None
) -> SparkSession:
    """A new session with our defaults and the user's `spark.*` settings over them.

    Blocks for seconds. Raises StartupFailed when Java is missing or too old, or Spark does not start.
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
    effective.setdefault("spark.local.dir", str(scratch() / "spark"))
    effective.setdefault("spark.sql.warehouse.dir", str(scratch() / "warehouse"))
    builder = SparkSession.builder
    for name, value in effective.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:  # py4j and PySpark raise what they like here
        raise StartupFailed(f"Spark did not start: {error}") from error
    session.sparkContext.setLogLevel(effective["spark.log.level"])
    session.dataSource.register(PenstockSource)
    return session


def scratch() -> Path:
    """A folder for what may be lost at any time: in memory where the machine has such a place."""
    memory = Path("/dev/shm")
    root = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    return root / f"penstock-{os.getpid()}"
