"""The settings of the sink to and the source of Google Cloud Storage, under the names of
Confluent's connectors (connectors.md §13.4)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.api import Backoff
from penstock.api.settings import (
    HIGH,
    LOW,
    REQUIRED,
    Config,
    ConfigDef,
    Group,
    Key,
    Secret,
    checking,
    non_empty,
)
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.settings import object_source, objects
from penstock.connectors.files.settings.connector import ObjectConnector, Vendor
from penstock.connectors.files.settings.extra import GCS, modules_of
from penstock.connectors.files.settings.sink import IGNORED, SINK_KEYS, SINK_RULES, compression
from penstock.connectors.files.stores.checks import Blame
from penstock.connectors.files.stores.gcs import CREDENTIALS, GcsClient, GcsOptions
from penstock.connectors.files.stores.tries import Tries
from penstock.connectors.files.write.plan import SinkPlan


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


# fmt: off
_CONNECTION: Final = Group("GCS", importance=HIGH)
_UPLOADS: Final = Group("GCS", importance=HIGH)
BUCKET: Final = _CONNECTION.text("gcs.bucket.name", REQUIRED,
    "The bucket; it must exist.", check=non_empty())
CREDENTIALS_PATH: Final = _CONNECTION.text("gcs.credentials.path", "",
    "A file with credentials, on the machines that run tasks. Without it and "
    "`gcs.credentials.json`, credentials come from GOOGLE_APPLICATION_CREDENTIALS or the machine, "
    "as is the default of Google's libraries.")
CREDENTIALS_JSON: Final = _CONNECTION.secret("gcs.credentials.json", "",
    "The credentials themselves, in JSON. They take precedence over `gcs.credentials.path`.",
    check=checking("credentials in JSON", _json_problem))
STORE_URL: Final = objects.store_url(_CONNECTION,
    "The address of a store other than Google's: http://host:port.")
ANONYMOUS: Final = _CONNECTION.flag("penstock.gcs.anonymous", False,
    "Whether no credentials are used, for public buckets.", importance=LOW)
PART_SIZE: Final = objects.part_size(_UPLOADS, "gcs.part.size", 2**31 - 1, order=6)
PART_RETRIES: Final = objects.retries(_CONNECTION, "gcs.part.retries", order=7)
RETRY_BACKOFF: Final = _CONNECTION.long("gcs.retry.backoff.ms", 200,
    "How long to wait before the first retry, in ms; twice as long before each further one.",
    at_least=0, importance=LOW)
COMPRESSION: Final = compression(_UPLOADS, "gcs", order=9)
PROXY: Final = objects.proxy(_CONNECTION, "gcs", order=11)
# fmt: on
CONDITIONAL: Final = objects.conditional(
    Group("Connector", first=90), "penstock.conditional.writes"
)
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
    *(*_CONNECTION, *_UPLOADS),
    CONDITIONAL,
    *SINK_KEYS,
    rules=(*SINK_RULES, credentials_rule),
)
GCS_SOURCE: Final = ConfigDef(
    *_CONNECTION,
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
