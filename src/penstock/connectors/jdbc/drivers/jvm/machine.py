"""Databases that are reached by a JDBC driver's jar, in a JVM inside the Python process.

Records are read and written in Python processes, often many of them and on other machines, which
have no way into Spark's own JVM; and what Spark can do with a driver is to append rows. So a
process that needs a driver starts a JVM of its own, by JPype, when it first connects: never
earlier, for what is forked from a process with a JVM has a broken one (Spark's daemon forks before
it runs any task). The JVM leaves signals and the end of the process to Python, takes no more than
`HEAP`, and has UTC as its time zone, so that a driver's wall clocks are those of the database.

Each set of jars has a class loader of its own: two connectors may use two versions of a driver.
Drivers are found as `java.sql.DriverManager` finds them, by `META-INF/services/java.sql.Driver`,
or named by `penstock.jdbc.driver.class`.
"""

from __future__ import annotations

import atexit
import contextlib
import glob
import os
import threading
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.util import find_spec
from typing import Any, Final

from penstock.api import ConfigInvalid, PenstockError
from penstock.connectors.jdbc.drivers.jvm.jars import CLASS, JARS, jars_of, listed_in, named_jars
from penstock.connectors.jdbc.drivers.url import Url

HEAP: Final = "512m"

_starting = threading.Lock()
_process: int | None = None  # which one the JVM is in


def jvm() -> Any:
    """JPype, with a JVM running. ConfigInvalid says what is missing."""
    global _process
    try:
        import jpype
        import jpype.config
    except ImportError as error:
        raise ConfigInvalid(
            [f"a JDBC driver needs JPype, which cannot be imported: {error}"]
        ) from error
    with _starting:
        if _process == os.getpid():
            return jpype
        if _process is not None:
            raise PenstockError("This process was forked from one with a JVM, which it cannot use.")
        jpype.config.onexit = False  # it would wait for a driver's threads to end
        options = ["-Xrs", "-Xms16m", f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-Duser.timezone=UTC"]
        try:
            if not jpype.isJVMStarted():
                jpype.startJVM(*options, classpath=[], convertStrings=False, interrupt=False)
        except (jpype.JVMNotFoundException, jpype.JVMNotSupportedException, OSError) as error:
            raise ConfigInvalid(
                [f"no JVM can be started for the JDBC driver; is JAVA_HOME set? {error}"]
            ) from error
        _process = os.getpid()
        atexit.register(_leave_python, jpype)
        # Another part of the process may have started it with other options.
        jpype.JClass("java.util.TimeZone").setDefault(
            jpype.JClass("java.util.TimeZone").getTimeZone("UTC")
        )
    return jpype


def _leave_python(jpype: Any) -> None:
    """At the end of the process: nothing in the JVM calls Python from now on. JPype's thread that
    gives up Python's objects would be ended inside Java, which aborts the process."""
    if _process != os.getpid():
        return  # a fork, to which the JVM did not come along
    jpype.JClass("org.jpype.ref.JPypeReferenceQueue").getInstance().stop()


@cache
def _compiled() -> Any:
    """`Rows.java`, compiled by Janino, which Spark has among its jars."""
    jpype = jvm()
    loader = _loader(tuple(_compiler_jars()))
    compiler = jpype.JClass("org.codehaus.janino.SimpleCompiler", loader=loader)()
    # A thread that Python began has no class loader of its own to take for it.
    compiler.setParentClassLoader(loader)
    compiler.cook(resources.files(__package__).joinpath("Rows.java").read_text())
    return compiler.getClassLoader()


def compiled_class(name: str) -> Any:
    jpype = jvm()
    return jpype.JClass(f"penstock.Rows${name}", loader=_compiled())


def _compiler_jars() -> list[str]:
    spec = find_spec("pyspark")
    places = [*(spec.submodule_search_locations or ())] if spec else []
    if spark := os.environ.get("SPARK_HOME"):
        places.append(spark)
    for place in places:
        found = [glob.glob(f"{place}/jars/{name}-*.jar") for name in ("janino", "commons-compiler")]
        if all(found):
            return [each for each, *_ in found]
    raise ConfigInvalid(
        ["the jars of Spark, which a JDBC driver's rows are read with, are not in "
         f"{' or '.join(f'{place}/jars' for place in places) or 'any known place'}; set SPARK_HOME"]
    )  # fmt: skip


@cache
def _loader(jars: tuple[str, ...]) -> Any:
    jpype = jvm()
    uris = [jpype.JClass("java.io.File")(jar).toURI().toURL() for jar in jars]
    urls = jpype.JArray(jpype.JClass("java.net.URL"))(uris)
    return jpype.JClass("java.net.URLClassLoader")(urls)


def driver_of(url: Url, address: str) -> tuple[Any, Any]:
    """The driver for an address, and its class loader."""
    jpype = jvm()
    jars = jars_of(listed_in(url))
    loader, where = _loader(tuple(jars)), named_jars(jars)
    named = str(url.options.get("class", ""))
    if named:
        try:
            driver = jpype.JClass(named, loader=loader)()
        except (TypeError, jpype.JException) as error:
            raise ConfigInvalid(
                [f"{CLASS}: there is no class '{named}' to be had from {where} ({error})"]
            ) from error
        if not isinstance(driver, jpype.JClass("java.sql.Driver")):
            raise ConfigInvalid([f"{CLASS}: '{named}' is no JDBC driver"])
        return driver, loader
    found = jpype.JClass("java.util.ServiceLoader").load(jpype.JClass("java.sql.Driver"), loader)
    offered = found.iterator()
    while True:
        try:
            if not offered.hasNext():
                break
            driver = offered.next()
            if driver.acceptsURL(address):
                return driver, loader
        except jpype.JException:
            continue  # one that lacks what it needs is not in the way of the others
    raise ConfigInvalid(
        [
            f"no JDBC driver for '{url.shown}' (connection.url) is in {where}; name its jar "
            f"in {JARS}, and its class in {CLASS} if the jar does not say it"
        ]
    )


@contextlib.contextmanager
def closing(closable: Any) -> Iterator[Any]:
    try:
        yield closable
    finally:
        with contextlib.suppress(Exception):
            closable.close()
