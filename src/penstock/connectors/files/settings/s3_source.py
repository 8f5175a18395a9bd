"""The settings of the source of S3, under the names of Confluent's connector
(connectors.md §13)."""

from __future__ import annotations

from typing import Final

from penstock.api.settings import Config, ConfigDef
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.settings import s3
from penstock.connectors.files.settings.object_source import (
    IGNORED,
    OBJECT_KEYS,
    mode_rule,
    object_source_plan,
    poll_interval,
)

POLL_INTERVAL: Final = poll_interval("s3.poll.interval.ms")
_IGNORED: Final = (
    *IGNORED,
    *("s3.retry.backoff.ms", "s3.retry.max.backoff.time.ms", "s3.http.send.expect.continue"),
)

CONNECTION: Final = (
    s3.BUCKET,
    s3.REGION,
    s3.STORE_URL,
    s3.PATH_STYLE,
    s3.ACCESS_KEY,
    s3.SECRET_KEY,
    s3.SESSION_TOKEN,
    s3.PROFILE,
    s3.PROVIDER,
    s3.ROLE_ARN,
    s3.ROLE_SESSION,
    s3.ROLE_EXTERNAL_ID,
    s3.PART_RETRIES,
    s3.SSE_CUSTOMER_KEY,
    s3.ACCELERATE,
    *s3.PROXY.keys,
)

S3_SOURCE: Final = ConfigDef(
    *CONNECTION,
    POLL_INTERVAL,
    *OBJECT_KEYS,
    rules=(mode_rule, s3.credentials_rule, s3.store_rule),
)


def s3_source_plan(config: Config) -> SourcePlan:
    """The plan of a valid configuration."""
    return object_source_plan(config, POLL_INTERVAL, f"s3://{config[s3.BUCKET]}/", _IGNORED)
