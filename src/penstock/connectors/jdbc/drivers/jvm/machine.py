"""Runs JDBC drivers in a JVM inside the Python process (`connectors.jvm`).

Spark only appends rows via a driver. The JVM's time zone is UTC, so that a driver's wall clock
times are those of the database. Drivers are found by `META-INF/services/java.sql.Driver`, as
`java.sql.DriverManager` does it, or named by `penstock.jdbc.driver.class`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any, Final

from penstock.api import ConfigInvalid
from penstock.connectors import jvm as java
from penstock.connectors.jdbc.drivers.jvm.jars import CLASS, JARS, jars_of, listed_in, named_jars
from penstock.connectors.jdbc.drivers.url import Url

_DRIVER: Final = "a JDBC driver"


def jvm() -> Any:
    """JPype, with a running JVM. Raises ConfigInvalid that says what is missing."""
    return java.jvm(_DRIVER)


@cache
def _compiled() -> Any:
    """The class loader of `Rows.java`, compiled by Janino, which is among Spark's jars."""
    jpype = jvm()
    loader = java.loader_of(tuple(java.spark_jars(("janino", "commons-compiler"), _DRIVER)))
    compiler = jpype.JClass("org.codehaus.janino.SimpleCompiler", loader=loader)()
    # A thread started by Python has no class loader that Janino could use.
    compiler.setParentClassLoader(loader)
    compiler.cook(resources.files(__package__).joinpath("Rows.java").read_text())
    return compiler.getClassLoader()


def compiled_class(name: str) -> Any:
    jpype = jvm()
    return jpype.JClass(f"penstock.Rows${name}", loader=_compiled())


def driver_of(url: Url, address: str) -> tuple[Any, Any]:
    """The driver for an address, and its class loader."""
    jpype = jvm()
    jars = jars_of(listed_in(url))
    loader, searched = java.loader_of(tuple(jars)), named_jars(jars)
    class_name = str(url.options.get("class", ""))
    if class_name:
        try:
            driver = jpype.JClass(class_name, loader=loader)()
        except (TypeError, jpype.JException) as error:
            raise ConfigInvalid(
                [f"{CLASS}: cannot load class '{class_name}' from {searched} ({error})"]
            ) from error
        if not isinstance(driver, jpype.JClass("java.sql.Driver")):
            raise ConfigInvalid([f"{CLASS}: '{class_name}' is not a JDBC driver"])
        return driver, loader
    services = jpype.JClass("java.util.ServiceLoader").load(jpype.JClass("java.sql.Driver"), loader)
    drivers = services.iterator()
    while True:
        try:
            if not drivers.hasNext():
                break
            driver = drivers.next()
            if driver.acceptsURL(address):
                return driver, loader
        except jpype.JException:
            continue  # skip a driver with missing dependencies
    raise ConfigInvalid(
        [
            f"no JDBC driver for '{url.shown}' (connection.url) in {searched}; name its jar in "
            f"{JARS}, and its class in {CLASS} if the jar does not declare it"
        ]
    )


@contextlib.contextmanager
def closing(closable: Any) -> Iterator[Any]:
    try:
        yield closable
    finally:
        with contextlib.suppress(Exception):
            closable.close()
