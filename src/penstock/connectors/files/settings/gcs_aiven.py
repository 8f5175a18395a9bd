"""The settings of the sink to Google Cloud Storage of Aiven (connectors.md §13.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.api import Backoff
from penstock.api.settings import (
    LOW,
    Config,
    ConfigDef,
    Group,
    Key,
    invalid,
)
from penstock.connectors.files.boundaries.templates import compile_template
from penstock.connectors.files.settings import aiven, gcs
from penstock.connectors.files.settings.connector import ObjectConnector
from penstock.connectors.files.settings.ignored import log_ignored
from penstock.connectors.files.stores.gcs import GcsOptions
from penstock.connectors.files.stores.tries import Tries
from penstock.connectors.files.write.plan import SinkPlan

_PART: Final = 8 << 20

ENDPOINT: Final = replace(gcs.STORE_URL, name="gcs.endpoint", importance=LOW)
# fmt: off
_GCS: Final = Group("GCS", first=5)
CREDENTIALS_DEFAULT: Final = _GCS.flag("gcs.credentials.default", None,
    "true: Google's default credentials are used; false: none are used. By default Google's "
    "default credentials are used, unless a path or JSON is set.", importance=LOW)
RETRIES: Final = _GCS.number("gcs.retry.backoff.max.attempts", 6,
    "How often a request is sent before the task pauses. The task then retries indefinitely.",
    at_least=0, order=7)
BACKOFF: Final = _GCS.long("gcs.retry.backoff.initial.delay.ms", 1_000,
    "How long to wait before the first retry, in ms; twice as long before each further one.",
    at_least=0)
MAX_BACKOFF: Final = _GCS.long("gcs.retry.backoff.max.delay.ms", 32_000,
    "The maximum delay before a retry, in ms.", at_least=0)
ENCODING: Final = _GCS.text("gcs.object.content.encoding", None,
    "The Content-Encoding of objects, such as gzip. Google's store decompresses those of gzip for "
    "clients that do not accept it.", importance=LOW)
_FILE: Final = Group("File", first=0)
PREFIX: Final = _FILE.text("file.name.prefix", "",
    "The prefix of object names.")
# fmt: on
COMPRESSION: Final = replace(aiven.COMPRESSION, default="none")

_IGNORED: Final = (
    "gcs.retry.backoff.delay.multiplier",
    "gcs.retry.backoff.total.timeout.ms",
    "gcs.user.agent",
    "kafka.retry.backoff.ms",
)


def _credentials_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Credentials are set once."""
    names = [key.name for key in (gcs.CREDENTIALS_PATH, gcs.CREDENTIALS_JSON) if _has(parsed, key)]
    if len(names) > 1:
        yield names[1], f"{names[1]} cannot be set with {names[0]}"
    elif names and parsed.get(CREDENTIALS_DEFAULT.name):
        name = CREDENTIALS_DEFAULT.name
        yield name, f"{name} cannot be true with {names[0]}"


def _has(parsed: Mapping[str, object], key: Key[str] | Key[object]) -> bool:
    value = parsed.get(key.name)
    return bool(getattr(value, "value", value))


def _name_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """An object that holds the latest record of its key has one record."""
    template, limit = parsed.get(aiven.TEMPLATE.name), parsed.get(aiven.MAX_RECORDS.name)
    if not template or aiven.template_problem(str(template)):
        return
    if compile_template(str(template)).is_compact and isinstance(limit, int) and limit > 1:
        name = aiven.MAX_RECORDS.name
        text = f"When {aiven.TEMPLATE.name} is {template}, it must be either 1 or not set"
        yield name, invalid(name, limit, text)


AIVEN_GCS_SINK: Final = ConfigDef(
    *(gcs.BUCKET, gcs.CREDENTIALS_PATH, gcs.CREDENTIALS_JSON, CREDENTIALS_DEFAULT, ENDPOINT),
    *(RETRIES, BACKOFF, MAX_BACKOFF, ENCODING, PREFIX, aiven.TEMPLATE, COMPRESSION),
    aiven.MAX_RECORDS,
    *(aiven.NAME_ZONE, aiven.NAME_SOURCE, aiven.ZONE, aiven.SOURCE, aiven.OUTPUT_TYPE),
    *(aiven.OUTPUT_FIELDS, aiven.VALUE_ENCODING, aiven.ENVELOPE, aiven.AVRO_CODEC),
    rules=(_credentials_rule, aiven.envelope_rule, _name_rule),
)


def aiven_gcs_options(config: Config) -> GcsOptions:
    """Connection parameters of the bucket, from a valid configuration."""
    secret = config[gcs.CREDENTIALS_JSON]
    attempts = config[RETRIES]
    return GcsOptions(
        bucket=config[gcs.BUCKET],
        url=config[ENDPOINT] or None,
        credentials_path=config[gcs.CREDENTIALS_PATH] or None,
        credentials_json=secret if secret.value else None,
        anonymous=config[CREDENTIALS_DEFAULT] is False
        and not secret.value
        and not config[gcs.CREDENTIALS_PATH],
        tries=Tries(max(attempts - 1, 0), Backoff(config[BACKOFF], config[MAX_BACKOFF])),
        part_bytes=_PART,
        content_encoding=config[ENCODING] or None,
    )


def aiven_gcs_plan(config: Config) -> SinkPlan:
    """The plan of a valid configuration."""
    log_ignored(config, _IGNORED)
    text = config[aiven.TEMPLATE] or aiven.DEFAULT_TEMPLATE + aiven.extension_of(config)
    return aiven.template_plan(config, config[PREFIX] + text)


SINK: Final = ObjectConnector(
    vendor=gcs.VENDOR,
    class_name="io.aiven.kafka.connect.gcs.GcsSinkConnector",
    task_class="io.aiven.kafka.connect.gcs.GcsSinkTask",
    settings=AIVEN_GCS_SINK,
    options=lambda config, connector: aiven_gcs_options(config),
    plan=aiven_gcs_plan,
    modules=aiven.modules_of,
    checked=lambda config: [f"{config[PREFIX]}.penstock"],
    blame=lambda options: gcs.blame(options, url=ENDPOINT),
)
