"""The settings of the source of Google Cloud Storage, under the names of Confluent's connector
(connectors.md §13.4)."""

from __future__ import annotations

from typing import Final

from penstock.api.settings import Config, ConfigDef
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.settings import gcs
from penstock.connectors.files.settings.object_source import (
    IGNORED,
    OBJECT_KEYS,
    mode_rule,
    object_source_plan,
    poll_interval,
)

POLL_INTERVAL: Final = poll_interval("gcs.poll.interval.ms")
_IGNORED: Final = (*IGNORED, *gcs.GCS_IGNORED)

GCS_SOURCE: Final = ConfigDef(
    *gcs.GCS_CONNECTION,
    POLL_INTERVAL,
    *OBJECT_KEYS,
    rules=(mode_rule, gcs.credentials_rule),
)


def gcs_source_plan(config: Config) -> SourcePlan:
    """The plan of a valid configuration."""
    return object_source_plan(config, POLL_INTERVAL, f"gs://{config[gcs.BUCKET]}/", _IGNORED)
