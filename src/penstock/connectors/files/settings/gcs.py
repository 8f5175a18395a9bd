"""The settings of the sink to and the source of Google Cloud Storage, under the names of
Confluent's connectors (connectors.md §13.4)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.api import Backoff
from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    LONG,
    LOW,
    PASSWORD,
    STRING,
    Config,
    ConfigDef,
    Key,
    Secret,
    at_least,
    checking,
    non_empty,
)
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.settings import object_source, objects
from penstock.connectors.files.settings.connector import ObjectConnector, Vendor
from penstock.connectors.files.settings.extra import GCS, modules_of
from penstock.connectors.files.settings.sink import IGNORED, SINK_KEYS, SINK_RULES
from penstock.connectors.files.stores.checks import Blame
from penstock.connectors.files.stores.gcs import CREDENTIALS, GcsClient, GcsOptions
from penstock.connectors.files.stores.tries import Tries
from penstock.connectors.files.write.plan import SinkPlan

_GCS: Final = "GCS"


def _json_problem(secret: Secret | None) -> str | None:
    if secret is None or not secret.value:
        return None
    try:
        parsed = json.loads(secret.value)
    except ValueError:
        return "It is not JSON"
    return (
        None
        if isinstance(parsed, dict) and "type" in parsed
        else "It is not the JSON of credentials"
    )


BUCKET: Final = Key(
    "gcs.bucket.name",
    STRING,
    importance=HIGH,
    check=non_empty(),
    doc="The bucket; it must exist.",
    group=_GCS,
    order=1,
)
CREDENTIALS_PATH: Final = Key(
    "gcs.credentials.path",
    STRING,
    default="",
    importance=HIGH,
    doc="A file with credentials, on the machines that run tasks. Without it and "
    "`gcs.credentials.json`, credentials come from GOOGLE_APPLICATION_CREDENTIALS or the machine, "
    "as is the default of Google's libraries.",
    group=_GCS,
    order=2,
)
CREDENTIALS_JSON: Final = Key(
    "gcs.credentials.json",
    PASSWORD,
    default=Secret(""),
    importance=HIGH,
    check=checking("credentials in JSON", _json_problem),
    doc="The credentials themselves, in JSON. They take precedence over `gcs.credentials.path`.",
    group=_GCS,
    order=3,
)
STORE_URL: Final = objects.store_url(
    _GCS, 4, "The address of a store other than Google's: http://host:port."
)
ANONYMOUS: Final = Key(
    "penstock.gcs.anonymous",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether no credentials are used, for public buckets.",
    group=_GCS,
    order=5,
)
PART_SIZE: Final = objects.part_size("gcs.part.size", _GCS, 6, 2**31 - 1)
PART_RETRIES: Final = objects.retries("gcs.part.retries", _GCS, 7)
RETRY_BACKOFF: Final = Key(
    "gcs.retry.backoff.ms",
    LONG,
    default=200,
    importance=LOW,
    check=at_least(0),
    doc="How long to wait before the first retry, in ms; twice as long before each further one.",
    group=_GCS,
    order=8,
)
COMPRESSION: Final = objects.compression("gcs", _GCS, 9)
PROXY: Final = objects.proxy("gcs", _GCS, 11)
CONDITIONAL: Final = objects.conditional("penstock.conditional.writes", "Connector", 90)

GCS_CONNECTION: Final = (
    *(BUCKET, CREDENTIALS_PATH, CREDENTIALS_JSON, STORE_URL, ANONYMOUS, PART_RETRIES),
    *(RETRY_BACKOFF, *PROXY.keys),
)
"""Settings that a source has, too."""
_IGNORED: Final = ("gcs.credentials.provider.class", "gcs.parts.prefix")
"""Settings of Confluent's connectors that have no meaning here."""
POLL_INTERVAL: Final = object_source.poll_interval("gcs.poll.interval.ms")


def credentials_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Credentials are not set for anonymous access."""
    secret = parsed.get(CREDENTIALS_JSON.name)
    names = [CREDENTIALS_JSON.name] if isinstance(secret, Secret) and secret.value else []
    names += [CREDENTIALS_PATH.name] if parsed.get(CREDENTIALS_PATH.name) else []
    if parsed.get(ANONYMOUS.name) and names:
        yield ANONYMOUS.name, f"{ANONYMOUS.name} cannot be true with {names[0]}"


GCS_SINK: Final = ConfigDef(
    *GCS_CONNECTION,
    PART_SIZE,
    COMPRESSION.type,
    COMPRESSION.level,
    CONDITIONAL,
    *SINK_KEYS,
    rules=(*SINK_RULES, credentials_rule),
)
GCS_SOURCE: Final = ConfigDef(
    *GCS_CONNECTION,
    POLL_INTERVAL,
    *object_source.OBJECT_KEYS,
    rules=(*object_source.OBJECT_RULES, credentials_rule),
)


def gcs_connection(config: Config) -> GcsOptions:
    """Connection parameters of the bucket, from a valid configuration of a sink or source."""
    secret = config[CREDENTIALS_JSON]
    return GcsOptions(
        bucket=config[BUCKET],
        url=config[STORE_URL] or None,
        credentials_path=config[CREDENTIALS_PATH] or None,
        credentials_json=secret if secret.value else None,
        anonymous=config[ANONYMOUS],
        proxy=PROXY.of(config),
        tries=Tries(config[PART_RETRIES], Backoff(config[RETRY_BACKOFF], 10_000)),
    )


def gcs_options(config: Config) -> GcsOptions:
    """Parameters of the bucket, from a valid configuration of a sink."""
    return replace(gcs_connection(config), part_bytes=config[PART_SIZE])


def blame(options: GcsOptions, url: Key[str | None] = STORE_URL) -> Blame:
    """The settings to blame for errors of the store; `url`: the one with its address."""
    by_path = options.credentials_path and options.credentials_json is None
    credentials = CREDENTIALS_PATH.name if by_path else CREDENTIALS_JSON.name
    unreachable = url if options.url else PROXY.url if options.proxy else BUCKET
    return Blame({CREDENTIALS: credentials}, BUCKET.name, unreachable.name)


def gcs_plan(config: Config) -> SinkPlan:
    """The plan of a valid configuration."""
    return objects.object_plan(config, COMPRESSION, CONDITIONAL, (*IGNORED, *_IGNORED))


def gcs_source_plan(config: Config) -> SourcePlan:
    """The plan of a valid configuration of a source."""
    place, ignored = f"gs://{config[BUCKET]}/", (*object_source.IGNORED, *_IGNORED)
    return object_source.object_source_plan(config, POLL_INTERVAL, place, ignored)


VENDOR: Final = Vendor(GcsClient, "google.cloud.storage", GCS)
SINK: Final = ObjectConnector(
    vendor=VENDOR,
    class_name="io.confluent.connect.gcs.GcsSinkConnector",
    task_class="io.confluent.connect.gcs.GcsSinkTask",
    settings=GCS_SINK,
    options=lambda config, connector: gcs_options(config),
    plan=gcs_plan,
    modules=modules_of,
    checked=lambda config: [objects.name_to_check(config)],
    blame=blame,
)
SOURCE: Final = ObjectConnector(
    vendor=VENDOR,
    class_name="io.confluent.connect.gcs.GcsSourceConnector",
    task_class="io.confluent.connect.gcs.GcsSourceTask",
    settings=GCS_SOURCE,
    options=lambda config, connector: gcs_connection(config),
    plan=gcs_source_plan,
    modules=object_source.modules_of,
    checked=object_source.prefixes_of,
    blame=blame,
)
