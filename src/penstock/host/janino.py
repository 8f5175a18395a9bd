"""Compiles penstock's Java, which is shipped as source. Janino, which is part of Spark, needs no
JDK; it knows neither generics nor classes that capture variables."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from penstock.errors import StartupFailed
from penstock.host import class_archive, jars

_COMPILER: Final = ("janino-", "commons-compiler-", "py4j-")


def compiled(gateway: Any, loader: Any, sources: Mapping[str, str]) -> dict[str, bytes]:
    """Class files by name, from the texts of classes in the package `penstock`. `gateway` is a JVM
    with Janino, `loader` has the classes that they need."""
    jvm = gateway.jvm
    util = jvm.org.codehaus.commons.compiler.util.resource
    texts = gateway.new_array(util.Resource, len(sources))
    for i, (name, text) in enumerate(sources.items()):
        texts[i] = util.StringResource(f"penstock/{name}.java", text)
    compiler = jvm.org.codehaus.janino.Compiler()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    created = util.MapResourceCreator()
    compiler.setClassFileCreator(created)
    compiler.compile(texts)
    classes = created.getMap()
    return {name: bytes(classes[name]) for name in classes}


def write_jar(classes: Mapping[str, bytes], archive: Path) -> Path:
    """Writes class files to an archive, which is complete, or absent, at any time; returns it. Its
    folder has to exist."""
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".making-") as work:
        made = Path(work) / archive.name
        with zipfile.ZipFile(made, "w") as jar:
            for name, code in classes.items():
                jar.writestr(name, code)
        return made.rename(archive)


def compiled_jar(program: str, sources: Mapping[str, str], classpath: Sequence[Path]) -> Path:
    """The archive of a program's classes. It is compiled, by a JVM, when there is none of these
    sources and this class path. Raises StartupFailed when the penstock home is not writable."""
    digest = hashlib.sha256("".join([*sources.values(), *map(str, classpath)]).encode())
    archive = class_archive.place() / f"{program}-{digest.hexdigest()[:12]}.jar"
    if archive.is_file():
        return archive
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with _gateway(classpath) as gateway:
            loader = gateway.jvm.java.lang.ClassLoader.getSystemClassLoader()
            classes = compiled(gateway, loader, sources)
        return write_jar(classes, archive)
    except OSError as error:
        raise StartupFailed(
            f"The classes of {program} cannot be written to {archive.parent}: {error.strerror}. "
            "Set PENSTOCK_HOME to a folder that can be written to."
        ) from error


@contextmanager
def _gateway(classpath: Sequence[Path]) -> Iterator[Any]:
    """A JVM with Janino and these classes, which ends with the block."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    ours = [jar for jar in jars.pyspark_jars() if jar.name.startswith(_COMPILER)]
    port, token = launch_gateway(
        classpath=os.pathsep.join(map(str, [*ours, *classpath])),
        jarpath=str(next(jar for jar in ours if jar.name.startswith("py4j-"))),
        java_path=jars.java(),
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield gateway
    finally:
        gateway.shutdown()
