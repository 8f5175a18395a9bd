"""Settings of the connectors that are replaced that have no meaning here, and are not declared."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from penstock.api.settings import Config

log = logging.getLogger(__name__)


def log_ignored(config: Config, names: Iterable[str]) -> None:
    """Logs which of these settings a configuration has."""
    present = [name for name in names if name in config.props]
    if present:
        log.info("Ignoring settings that have no meaning in penstock: %s", ", ".join(present))
