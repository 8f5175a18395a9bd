"""The Java of ours that runs in Spark's JVMs: it comes as source, and Janino, which Spark brings
along, compiles it in the driver's."""

from __future__ import annotations

import zipfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCE: Final = "SlotReading.java"


def prepare(spark: SparkSession, folder: Path) -> None:
    """Makes the JVMs of the driver and the executors know our classes; once, before they are used.
    Their archive is written to `folder`."""
    jvm: Any = spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(resources.files(__package__).joinpath(_SOURCE).read_text())
    classes = compiler.getBytecodes()
    archive = folder / "penstock.jar"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as jar:
        for name in classes:
            jar.writestr(f"{name.replace('.', '/')}.class", bytes(classes[name]))
    context: Any = spark.sparkContext._jsc
    context.addJar(archive.as_uri())
    jvm.java.lang.Thread.currentThread().getContextClassLoader().addURL(
        jvm.java.net.URI.create(archive.as_uri()).toURL()
    )
