"""The settings of the sink to a local folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from penstock.api.settings import (
    HIGH,
    INT,
    LOW,
    STRING,
    Config,
    ConfigDef,
    Key,
    checking,
)
from penstock.connectors.files.boundaries.paths import escaped
from penstock.connectors.files.settings.names import checked_name
from penstock.connectors.files.settings.sink import (
    COMPRESSION_CHECK,
    COMPRESSION_DOC,
    LEVEL_CHECK,
    LEVEL_DOC,
    SINK_KEYS,
    SINK_RULES,
    plan_of,
)
from penstock.connectors.files.write.plan import SinkPlan

_LONGEST: Final = 255  # bytes of a name


def _folder_problem(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        return "It is neither a path nor of the form file:///path"
    return None if parts.path.startswith("/") else "The path must be absolute"


STORE_URL: Final = Key(
    "store.url",
    STRING,
    importance=HIGH,
    check=checking("a path, or file:///path", _folder_problem),
    doc="The folder that files are written to, on the machines that run tasks; it is created if "
    "missing.",
    group="Connector",
    order=0,
)
COMPRESSION: Final = Key(
    "penstock.compression.type",
    STRING,
    default="none",
    importance=LOW,
    check=COMPRESSION_CHECK,
    doc=COMPRESSION_DOC,
)
LEVEL: Final = Key(
    "penstock.compression.level",
    INT,
    default=-1,
    importance=LOW,
    check=LEVEL_CHECK,
    doc=LEVEL_DOC,
)
LOCAL_SINK: Final = ConfigDef(STORE_URL, *SINK_KEYS, COMPRESSION, LEVEL, rules=SINK_RULES)


def folder_of(config: Config) -> Path:
    """The folder that a valid configuration names."""
    url = config[STORE_URL]
    return Path(unquote(urlsplit(url).path) if url.startswith("file:") else url)


def _named(text: str) -> str:
    """A folder name that cannot escape its folder. Raises DataError if none is possible."""
    return checked_name(text, escaped(text), "a folder", _LONGEST)


def local_plan(config: Config) -> SinkPlan:
    """The plan of a valid configuration."""
    return plan_of(config, compression=config[COMPRESSION], level=config[LEVEL], named=_named)
