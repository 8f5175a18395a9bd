"""penstock's Java classes for Spark's JVMs. They are shipped as source; Janino, which is part of
Spark, compiles them in the driver."""

from __future__ import annotations

import zipfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASSES: Final = ("Cells", "Chunk", "Slot", "SlotConsumer", "SlotReading")


def prepare(spark: SparkSession, folder: Path) -> None:
    """Adds the classes to the JVMs of the driver and the executors; call it once, before they are
    used. Their archive is written to `folder`."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    classes = _compiled(spark.sparkContext._gateway, loader)
    archive = folder / "penstock.jar"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as jar:
        for name in classes:
            jar.writestr(name, bytes(classes[name]))
    context: Any = spark.sparkContext._jsc
    context.addJar(archive.as_uri())
    loader.addURL(jvm.java.net.URI.create(archive.as_uri()).toURL())


def _compiled(gateway: Any, loader: Any) -> Any:
    """A Java map from the names of class files to their bytes."""
    jvm = gateway.jvm
    util = jvm.org.codehaus.commons.compiler.util.resource
    sources = gateway.new_array(util.Resource, len(_CLASSES))
    for i, name in enumerate(_CLASSES):
        text = resources.files(__package__).joinpath(f"{name}.java").read_text()
        sources[i] = util.StringResource(f"penstock/{name}.java", text)
    compiler = jvm.org.codehaus.janino.Compiler()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    created = util.MapResourceCreator()
    compiler.setClassFileCreator(created)
    compiler.compile(sources)
    return created.getMap()
