"""penstock's Java classes for Spark's JVMs. They are shipped as source. Janino, which is part of
Spark, compiles them in the first driver's JVM, and the penstock home keeps them for the next ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.host import class_archive, janino

if TYPE_CHECKING:
    from pyspark import SparkContext

CLASSES: Final = ("Cells", "Chunk", "Slot", "SlotConsumer", "SlotReading")
"""Their names, in the package `penstock`."""


def compiled() -> list[Path]:
    """The jar of compiled classes, for the driver's class path; none if they are not compiled."""
    jar = _kept()
    return [jar] if jar.is_file() else []


def prepare(context: SparkContext, folder: Path) -> None:
    """Adds the classes to the JVMs of the driver and the executors, unless their jar was in the
    class path when these started; call it once, before they are used. The jar is kept in the
    penstock home or, if there is none that is writable, written to `folder`."""
    jvm: Any = context._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(f"penstock/{CLASSES[0]}.class") is not None:
        return
    jar = _written(janino.compiled(context._gateway, loader, _sources()), folder)
    java_context: Any = context._jsc
    java_context.addJar(jar.as_uri())
    loader.addURL(jvm.java.net.URI.create(jar.as_uri()).toURL())


def _sources() -> dict[str, str]:
    here = resources.files(__package__)
    return {name: here.joinpath(f"{name}.java").read_text() for name in CLASSES}


def _kept() -> Path:
    """Where the jar is kept; its name is that of the sources and of the Spark they are for."""
    parts = [version("pyspark"), *_sources().values()]
    fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return class_archive.place() / f"penstock-{fingerprint}.jar"


def _written(classes: Mapping[str, bytes], folder: Path) -> Path:
    kept = _kept()
    with suppress(OSError):
        kept.parent.mkdir(exist_ok=True)
        return janino.write_jar(classes, kept)
    folder.mkdir(parents=True, exist_ok=True)
    return janino.write_jar(classes, folder / kept.name)
