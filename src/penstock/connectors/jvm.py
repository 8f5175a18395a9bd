"""A JVM inside the Python process, for connectors whose target only Java can reach.

Records are read and written in Python processes, often many of them and on other machines, which
cannot reach Spark's own JVM. So a process that needs Java starts its own JVM with JPype when it
first connects: never earlier, because a fork of a process with a JVM has a broken one (Spark's
daemon forks before it runs any task). All connectors of a process share it. It leaves signals and
the end of the process to Python, uses at most `HEAP`, and has UTC as its time zone.

Each set of jars has its own class loader, so that two connectors may use two versions of a library.
"""

from __future__ import annotations

import atexit
import glob
import os
import threading
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

from penstock.api import ConfigInvalid, PenstockError

HEAP: Final = "512m"

_starting = threading.Lock()
_process: int | None = None  # the id of the process with the JVM


def jvm(user: str) -> Any:
    """JPype, with a running JVM. Raises ConfigInvalid, which names `user`, if something is
    missing."""
    global _process
    try:
        import jpype
        import jpype.config
    except ImportError as error:
        raise ConfigInvalid([f"{user} needs JPype, which cannot be imported: {error}"]) from error
    with _starting:
        if _process == os.getpid():
            return jpype
        if _process is not None:
            raise PenstockError("This process was forked from one with a JVM, which it cannot use.")
        jpype.config.onexit = False  # it would wait for threads of Java libraries to end
        options = ["-Xrs", "-Xms16m", f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-Duser.timezone=UTC"]
        try:
            if not jpype.isJVMStarted():
                jpype.startJVM(*options, classpath=[], convertStrings=False, interrupt=False)
        except (jpype.JVMNotFoundException, jpype.JVMNotSupportedException, OSError) as error:
            raise ConfigInvalid(
                [f"no JVM can be started for {user}; is JAVA_HOME set? {error}"]
            ) from error
        _process = os.getpid()
        atexit.register(_leave_python, jpype)
        # Another part of the process may have started it with other options.
        jpype.JClass("java.util.TimeZone").setDefault(
            jpype.JClass("java.util.TimeZone").getTimeZone("UTC")
        )
    return jpype


def _leave_python(jpype: Any) -> None:
    """At the end of the process, stops the JVM from calling Python: JPype's thread that releases
    Python's objects would be terminated inside Java, which aborts the process."""
    if _process != os.getpid():
        return  # a fork, which has no JVM
    jpype.JClass("org.jpype.ref.JPypeReferenceQueue").getInstance().stop()


@cache
def loader_of(jars: tuple[str, ...], name: str = "") -> Any:
    """The class loader of these jars, one for each `name`. Needs a running JVM."""
    import jpype

    uris = [jpype.JClass("java.io.File")(jar).toURI().toURL() for jar in jars]
    urls = jpype.JArray(jpype.JClass("java.net.URL"))(uris)
    return jpype.JClass("java.net.URLClassLoader")(urls)


def spark_jars(names: Iterable[str], user: str) -> list[str]:
    """Spark's jars with these names, which have no versions. Raises ConfigInvalid, which names
    `user`, if one is missing."""
    spec = find_spec("pyspark")
    folders = [*(spec.submodule_search_locations or ())] if spec else []
    if spark := os.environ.get("SPARK_HOME"):
        folders.append(spark)
    for folder in folders:
        matches = [sorted(glob.glob(f"{folder}/jars/{name}-[0-9]*.jar")) for name in names]
        if all(matches):
            return [jar for jar, *_ in matches]
    searched = " or ".join(f"{folder}/jars" for folder in folders) or "any known place"
    raise ConfigInvalid(
        [f"the jars of Spark, which {user} needs, are not in {searched}; set SPARK_HOME"]
    )
