"""Where Spark notes how far a query is: files that are written in a fraction of Hadoop's time.

Hadoop's own local files start a process for each, which takes longer than all the rest of a small
batch's bookkeeping. What is noted is worth nothing to the next run of a task: it begins where
Kafka Connect's own offsets say.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.flow.compiled import compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME: Final = "penstock"
_CLASS: Final = "penstock.Scratch"


def prepare(spark: SparkSession) -> None:
    """Makes the driver's JVM know such files; once, before the first query."""
    jvm: Any = spark._jvm
    conf = jvm.org.apache.hadoop.conf.Configuration(False)
    conf.setClassLoader(compiled(spark, "Scratch.java").getClassLoader())
    conf.set(f"fs.{_SCHEME}.impl", _CLASS)
    # Hadoop keeps the one it has opened, so nobody else has to find its class.
    jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI.create(f"{_SCHEME}:///"), conf)


def location(folder: Path) -> str:
    """A query's `checkpointLocation` for a local folder."""
    return f"{_SCHEME}://{folder}"
