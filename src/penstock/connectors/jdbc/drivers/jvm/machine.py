"""Databases that are reached by a JDBC driver's jar, in a JVM inside the Python process
(`connectors.jvm`).

What Spark could do with a driver is to append rows. The JVM's time zone is UTC, so that a driver's
wall clocks are those of the database. Drivers are found as `java.sql.DriverManager` finds them, by
`META-INF/services/java.sql.Driver`, or named by `penstock.jdbc.driver.class`.
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
    """JPype, with a JVM running. ConfigInvalid says what is missing."""
    return java.jvm(_DRIVER)


@cache
def _compiled() -> Any:
    """`Rows.java`, compiled by Janino, which Spark has among its jars."""
    jpype = jvm()
    loader = java.loader_of(tuple(java.spark_jars(("janino", "commons-compiler"), _DRIVER)))
    compiler = jpype.JClass("org.codehaus.janino.SimpleCompiler", loader=loader)()
    # A thread that Python began has no class loader of its own to take for it.
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
    loader, where = java.loader_of(tuple(jars)), named_jars(jars)
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
