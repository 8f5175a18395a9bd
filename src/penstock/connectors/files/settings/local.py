"""The settings of the sink to a local folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from penstock.api.settings import (
    HIGH,
    REQUIRED,
    Config,
    ConfigDef,
    Group,
    checking,
)
from penstock.connectors.files.boundaries.paths import escaped
from penstock.connectors.files.settings.names import checked_name
from penstock.connectors.files.settings.sink import (
    SINK_KEYS,
    SINK_RULES,
    compression,
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


# fmt: off
_CONNECTOR: Final = Group("Connector", importance=HIGH, first=0)
STORE_URL: Final = _CONNECTOR.text("store.url", REQUIRED,
    "The folder that files are written to, on the machines that run tasks; it is created if "
    "missing.", check=checking("a path, or file:///path", _folder_problem))
# fmt: on
_COMPRESSING: Final = Group()
COMPRESSION: Final = compression(_COMPRESSING, "penstock")
LOCAL_SINK: Final = ConfigDef(*_CONNECTOR, *SINK_KEYS, *_COMPRESSING, rules=SINK_RULES)


def folder_of(config: Config) -> Path:
    """The folder that a valid configuration names."""
    url = config[STORE_URL]
    return Path(unquote(urlsplit(url).path) if url.startswith("file:") else url)


def _named(text: str) -> str:
    """A folder name that cannot escape its folder. Raises DataError if none is possible."""
    return checked_name(text, escaped(text), "a folder", _LONGEST)


def local_plan(config: Config) -> SinkPlan:
    """The plan of a valid configuration."""
    return plan_of(config, compression=COMPRESSION, named=_named)
