"""The settings of the source of Azure Blob Storage, under the names of Confluent's connector
(connectors.md §13.4)."""

from __future__ import annotations

from typing import Final

from penstock.api.settings import Config, ConfigDef
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.settings import azure
from penstock.connectors.files.settings.object_source import (
    IGNORED,
    OBJECT_KEYS,
    mode_rule,
    object_source_plan,
    poll_interval,
)

POLL_INTERVAL: Final = poll_interval("azblob.poll.interval.ms")
_IGNORED: Final = (*IGNORED, *azure.AZURE_IGNORED)

AZURE_SOURCE: Final = ConfigDef(
    *azure.AZURE_CONNECTION,
    POLL_INTERVAL,
    *OBJECT_KEYS,
    rules=(mode_rule, azure.credentials_rule),
)


def azure_source_plan(config: Config) -> SourcePlan:
    """The plan of a valid configuration."""
    place = f"azure://{config[azure.ACCOUNT]}/{config[azure.CONTAINER]}/"
    return object_source_plan(config, POLL_INTERVAL, place, _IGNORED)
