"""penstock's Java classes for Spark's JVMs. They are shipped as source; Janino, which is part of
Spark, compiles them in the driver."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.host.janino import compiled, write_jar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASSES: Final = ("Cells", "Chunk", "Slot", "SlotConsumer", "SlotReading")


def prepare(spark: SparkSession, folder: Path) -> None:
    """Adds the classes to the JVMs of the driver and the executors; call it once, before they are
    used. Their archive is written to `folder`."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    here = resources.files(__package__)
    sources = {name: here.joinpath(f"{name}.java").read_text() for name in _CLASSES}
    archive = folder / "penstock.jar"
    write_jar(compiled(spark.sparkContext._gateway, loader, sources), archive)
    context: Any = spark.sparkContext._jsc
    context.addJar(archive.as_uri())
    loader.addURL(jvm.java.net.URI.create(archive.as_uri()).toURL())
