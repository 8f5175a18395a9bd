"""The jars of JDBC drivers: where they are, and what is missing of them."""

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
    """The jars that a list of files, folders and `folder/*` means, or else those that the class
    path (by default `CLASSPATH`) has. What is relative is also looked for in the folders of
    `sys.path`, where Spark puts the files that it distributes (`spark.files`)."""
    entries = list(listed)
    if not entries:
        entries = (os.environ.get("CLASSPATH", "") if class_path is None else class_path).split(
            os.pathsep
        )
    return list(dict.fromkeys(jar for entry in entries if entry for jar in _jars_at(entry.strip())))


def _jars_at(entry: str) -> list[str]:
    folders = [""] if os.path.isabs(entry) else ["", *sys.path]
    for folder in folders:
        place = Path(folder, entry)
        if place.is_file():
            return [os.path.abspath(place)]
        if place.is_dir():
            place /= "*"
        if place.name == "*":
            found = sorted(glob.glob(f"{place}.[jJ][aA][rR]"))
            if found:
                return [os.path.abspath(each) for each in found]
    return []


def problem(url: Url) -> tuple[str, str] | None:
    """What is missing to use a driver, as far as files tell: the setting, and what to do."""
    listed = listed_in(url)
    absent = [entry for entry in listed if not _jars_at(entry)]
    if absent:
        return JARS, f"there is no jar at {', '.join(absent)}"
    found = jars_of(listed)
    if named := str(url.options.get("class", "")):
        if not any(_has(jar, f"{named.replace('.', '/')}.class") for jar in found):
            return CLASS, f"there is no class '{named}' in {named_jars(found)}"
    elif not any(_has(jar, _SERVICE) for jar in found):
        where = "none of these jars has one" if listed else "no jar with one is in CLASSPATH"
        return "connection.url", (
            f"'{url.shown}' needs a JDBC driver, and {where}; name the driver's jar in {JARS}"
        )
    return None


def listed_in(url: Url) -> list[str]:
    return [each for each in str(url.options.get("jars", "")).split(",") if each]


def _has(jar: str, name: str) -> bool:
    try:
        with zipfile.ZipFile(jar) as archive:
            archive.getinfo(name)
    except (OSError, KeyError, zipfile.BadZipFile):
        return False
    return True


def named_jars(jars: Sequence[str]) -> str:
    return ", ".join(Path(jar).name for jar in jars) if jars else "CLASSPATH"
