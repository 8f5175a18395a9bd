"""The host of Java plugins: `penstock.java.*`, of a worker and of a connector."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final

from penstock.config.checks import checking
from penstock.config.declare import Group
from penstock.config.define import LOW, MEDIUM, ConfigDef, Width


def _bad_size(value: str) -> str | None:
    return None if re.fullmatch(r"[1-9]\d*[kmgKMG]", value) else "it is no size, such as 512m or 2g"


def _bad_options(value: str) -> str | None:
    try:
        shlex.split(value)
    except ValueError as error:
        return f"{error}"
    return None


# fmt: off
_HOST: Final = Group("Java Plugins", importance=LOW)
HEAP = _HOST.text("penstock.java.heap", "1g",
    "The largest heap of the JVM that runs Java plugins, as Java's -Xmx takes it: a number and k, "
    "m or g. All Java connectors of a worker share it.",
    check=checking("A number and k, m or g", _bad_size), importance=MEDIUM, width=Width.SHORT,
    label="Heap")
OPTIONS = _HOST.text("penstock.java.options", "",
    "Further options of the JVM that runs Java plugins, separated by spaces and quoted as in a "
    "shell.", check=checking("Options as in a shell", _bad_options), width=Width.LONG,
    label="JVM Options")

_CHOICE: Final = Group("Java Plugins", importance=LOW)
JAVA_PLUGIN = _CHOICE.flag("penstock.java.plugin", False,
    "Whether connector.class names the connector written in Java, from plugin.path, where penstock "
    "also has one of that name. Without this, penstock's own runs.", width=Width.SHORT,
    label="Java Plugin")
# fmt: on

HOST: Final = ConfigDef(*_HOST)
CHOICE: Final = ConfigDef(*_CHOICE)


def wants_java(props: Mapping[str, str | None]) -> bool:
    """Whether a connector's configuration asks for the connector written in Java. An invalid value
    does not; a validation reports it."""
    return (props.get(JAVA_PLUGIN.name) or "").strip().lower() == "true"
