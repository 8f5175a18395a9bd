"""The settings of the sink to Google Cloud Storage, and of how its source reaches a bucket, under
the names of Confluent's connectors (connectors.md §13.4)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    STRING,
    Config,
    ConfigDef,
    Key,
    Secret,
    at_least,
    between,
    checking,
    non_empty,
)
from penstock.connectors.files.settings.s3 import named_object
from penstock.connectors.files.settings.sink import (
    COMPRESSION_CHECK,
    COMPRESSION_DOC,
    IGNORED,
    LEVEL_CHECK,
    LEVEL_DOC,
    SINK_KEYS,
    SINK_RULES,
    plan_of,
)
from penstock.connectors.files.stores.gcs import CREDENTIALS, GcsOptions
from penstock.connectors.files.stores.s3 import proxy_url
from penstock.connectors.files.stores.tries import Tries
from penstock.connectors.files.write.plan import SinkPlan

_GCS: Final = "GCS"


def _url_problem(url: str | None) -> str | None:
    if not url or url.startswith(("http://", "https://")):
        return None
    return "It is not of the form http://host:port"


def _json_problem(given: Secret | None) -> str | None:
    if given is None or not given.value:
        return None
    try:
        about = json.loads(given.value)
    except ValueError:
        return "It is no JSON"
    return None if isinstance(about, dict) and "type" in about else "It is no credentials' JSON"


BUCKET: Final = Key(
    "gcs.bucket.name",
    STRING,
    importance=HIGH,
    check=non_empty(),
    doc="The bucket, which has to exist.",
    group=_GCS,
    order=1,
)
CREDENTIALS_PATH: Final = Key(
    "gcs.credentials.path",
    STRING,
    default="",
    importance=HIGH,
    doc="A file with credentials, on the machines that run tasks. Without one, and without "
    "`gcs.credentials.json`, credentials are from GOOGLE_APPLICATION_CREDENTIALS, or the machine, "
    "as for every program of Google's libraries.",
    group=_GCS,
    order=2,
)
CREDENTIALS_JSON: Final = Key(
    "gcs.credentials.json",
    PASSWORD,
    default=Secret(""),
    importance=HIGH,
    check=checking("credentials in JSON", _json_problem),
    doc="The credentials themselves, in JSON. They count before `gcs.credentials.path`.",
    group=_GCS,
    order=3,
)
STORE_URL: Final = Key(
    "store.url",
    STRING,
    default=None,
    importance=HIGH,
    check=checking("a URL", _url_problem),
    doc="The address of a store other than Google's: http://host:port.",
    group=_GCS,
    order=4,
)
ANONYMOUS: Final = Key(
    "penstock.gcs.anonymous",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether no credentials are used: for buckets that everybody may read.",
    group=_GCS,
    order=5,
)
PART_SIZE: Final = Key(
    "gcs.part.size",
    INT,
    default=26_214_400,
    importance=HIGH,
    check=between(5_242_880, 2**31 - 1),
    doc="Bytes of a part. Larger objects are uploaded in parts while they are written; an open "
    "file holds up to three in memory.",
    group=_GCS,
    order=6,
)
PART_RETRIES: Final = Key(
    "gcs.part.retries",
    INT,
    default=3,
    importance=MEDIUM,
    check=at_least(0),
    doc="How often a request is repeated at once. After that the task waits and tries again, "
    "without end.",
    group=_GCS,
    order=7,
)
RETRY_BACKOFF: Final = Key(
    "gcs.retry.backoff.ms",
    LONG,
    default=200,
    importance=LOW,
    check=at_least(0),
    doc="How long to wait before the first repetition, in ms; twice as long before each further "
    "one.",
    group=_GCS,
    order=8,
)
COMPRESSION: Final = Key(
    "gcs.compression.type",
    STRING,
    default="none",
    importance=LOW,
    check=COMPRESSION_CHECK,
    doc=COMPRESSION_DOC,
    group=_GCS,
    order=9,
)
LEVEL: Final = Key(
    "gcs.compression.level",
    INT,
    default=-1,
    importance=LOW,
    check=LEVEL_CHECK,
    doc=LEVEL_DOC,
    group=_GCS,
    order=10,
)
PROXY_URL: Final = Key(
    "gcs.proxy.url",
    STRING,
    default="",
    importance=LOW,
    check=checking("a URL", _url_problem),
    doc="An HTTP proxy: http://host:port.",
    group=_GCS,
    order=11,
)
PROXY_USER: Final = Key(
    "gcs.proxy.user",
    STRING,
    default="",
    importance=LOW,
    doc="The proxy's user.",
    group=_GCS,
    order=12,
)
PROXY_PASSWORD: Final = Key(
    "gcs.proxy.password",
    PASSWORD,
    default=Secret(""),
    importance=LOW,
    doc="The proxy's password.",
    group=_GCS,
    order=13,
)
CONDITIONAL: Final = Key(
    "penstock.conditional.writes",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether, with `rotate.schedule.interval.ms` and without files of keys and headers, "
    "objects that another task has stored are left as they are, so that a restart repeats no "
    "record.",
    group="Connector",
    order=90,
)

GCS_CONNECTION: Final = (
    *(BUCKET, CREDENTIALS_PATH, CREDENTIALS_JSON, STORE_URL, ANONYMOUS, PART_RETRIES),
    *(RETRY_BACKOFF, PROXY_URL, PROXY_USER, PROXY_PASSWORD),
)
"""What a source has, too."""
GCS_IGNORED: Final = ("gcs.credentials.provider.class", "gcs.parts.prefix")
"""Settings of Confluent's connectors without meaning here."""
_IGNORED: Final = (*IGNORED, *GCS_IGNORED)


def credentials_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Credentials are given once."""
    given = parsed.get(CREDENTIALS_JSON.name)
    names = [CREDENTIALS_JSON.name] if isinstance(given, Secret) and given.value else []
    names += [CREDENTIALS_PATH.name] if parsed.get(CREDENTIALS_PATH.name) else []
    if parsed.get(ANONYMOUS.name) and names:
        yield ANONYMOUS.name, f"{ANONYMOUS.name} cannot be true with {names[0]}"


GCS_SINK: Final = ConfigDef(
    *GCS_CONNECTION,
    PART_SIZE,
    COMPRESSION,
    LEVEL,
    CONDITIONAL,
    *SINK_KEYS,
    rules=(*SINK_RULES, credentials_rule),
)


def gcs_connection(config: Config) -> GcsOptions:
    """What a valid configuration, also of a source, says of how the bucket is reached."""
    proxy = config[PROXY_URL]
    given = config[CREDENTIALS_JSON]
    return GcsOptions(
        bucket=config[BUCKET],
        url=config[STORE_URL] or None,
        credentials_path=config[CREDENTIALS_PATH] or None,
        credentials_json=given if given.value else None,
        anonymous=config[ANONYMOUS],
        proxy=proxy_url(proxy, config[PROXY_USER], config[PROXY_PASSWORD]) if proxy else None,
        tries=Tries(config[PART_RETRIES], config[RETRY_BACKOFF]),
    )


def gcs_options(config: Config) -> GcsOptions:
    """What a valid configuration of a sink says of the bucket."""
    return replace(gcs_connection(config), part_bytes=config[PART_SIZE])


def reasons(options: GcsOptions) -> Mapping[str, str]:
    """The setting that is wrong, by the reason that the store gives; else it is the bucket."""
    by_path = options.credentials_path and options.credentials_json is None
    return {CREDENTIALS: CREDENTIALS_PATH.name if by_path else CREDENTIALS_JSON.name}


def away(options: GcsOptions) -> str:
    """The setting that is wrong where the store does not answer."""
    return STORE_URL.name if options.url else (PROXY_URL if options.proxy else BUCKET).name


def gcs_plan(config: Config) -> SinkPlan:
    """What a valid configuration says of files."""
    plan = plan_of(
        config,
        compression=config[COMPRESSION],
        level=config[LEVEL],
        named=named_object,
        ignored=_IGNORED,
    )
    return only_new(plan, wanted=config[CONDITIONAL])


def only_new(plan: SinkPlan, *, wanted: bool) -> SinkPlan:
    """A plan by which, if it is `wanted` and the store can tell, files of other tasks are left as
    they are: those that end by the clock, and have no others beside them."""
    alone = plan.keys is None and plan.headers is None
    return replace(plan, anew=wanted and plan.rules.schedule_ms is not None and alone)
