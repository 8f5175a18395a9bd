"""Java classes that come as source: Janino, which Spark brings along, compiles them in its JVM."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compiled(spark: SparkSession, file: str) -> Any:
    """Janino's compiler when it has compiled a file of this package: `getClassLoader` knows the
    classes by then, and `getBytecodes` has them for others."""
    jvm: Any = spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(resources.files(__package__).joinpath(file).read_text())
    return compiler
