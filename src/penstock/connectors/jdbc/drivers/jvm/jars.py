"""Finds the jars of JDBC drivers, and what is missing."""

from __future__ import annotations

import glob
import os
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.connectors.jdbc.drivers.url import Url

JARS: Final = "penstock.jdbc.driver.jars"
CLASS: Final = "penstock.jdbc.driver.class"

_SERVICE: Final = "META-INF/services/java.sql.Driver"


def jars_of(listed: Sequence[str], class_path: str | None = None) -> list[str]:
    """The jars of a list of files, folders and `folder/*`, or else those of the class path (by
    default `CLASSPATH`). Relative paths are also looked up in the folders of `sys.path`, where
    Spark puts the files that it distributes (`spark.files`)."""
    entries = list(listed)
    if not entries:
        entries = (os.environ.get("CLASSPATH", "") if class_path is None else class_path).split(
            os.pathsep
        )
    return list(dict.fromkeys(jar for entry in entries if entry for jar in _jars_at(entry.strip())))


def _jars_at(entry: str) -> list[str]:
    folders = [""] if os.path.isabs(entry) else ["", *sys.path]
    for folder in folders:
        path = Path(folder, entry)
        if path.is_file():
            return [os.path.abspath(path)]
        if path.is_dir():
            path /= "*"
        if path.name == "*":
            jars = sorted(glob.glob(f"{path}.[jJ][aA][rR]"))
            if jars:
                return [os.path.abspath(jar) for jar in jars]
    return []


def problem(url: Url) -> tuple[str, str] | None:
    """The setting and the advice if the files show that a driver cannot be used."""
    listed = listed_in(url)
    missing = [entry for entry in listed if not _jars_at(entry)]
    if missing:
        return JARS, f"no jar found at {', '.join(missing)}"
    jars = jars_of(listed)
    if driver := str(url.options.get("class", "")):
        if not any(_has(jar, f"{driver.replace('.', '/')}.class") for jar in jars):
            return CLASS, f"class '{driver}' not found in {named_jars(jars)}"
    elif not any(_has(jar, _SERVICE) for jar in jars):
        reason = "none of these jars contains one" if listed else "CLASSPATH contains none"
        return "connection.url", (
            f"'{url.shown}' needs a JDBC driver, and {reason}; name the driver's jar in {JARS}"
        )
    return None


def listed_in(url: Url) -> list[str]:
    return [entry for entry in str(url.options.get("jars", "")).split(",") if entry]


def _has(jar: str, name: str) -> bool:
    try:
        with zipfile.ZipFile(jar) as archive:
            archive.getinfo(name)
    except (OSError, KeyError, zipfile.BadZipFile):
        return False
    return True


def named_jars(jars: Sequence[str]) -> str:
    return ", ".join(Path(jar).name for jar in jars) if jars else "CLASSPATH"
