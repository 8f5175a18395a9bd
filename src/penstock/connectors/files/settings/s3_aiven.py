"""The settings of Aiven's source of S3 (connectors.md §13)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import (
    HIGH,
    INT,
    LOW,
    MEDIUM,
    PASSWORD,
    STRING,
    Config,
    ConfigDef,
    Key,
    Secret,
    at_least,
    checking,
    invalid,
    non_empty,
    one_of,
)
from penstock.connectors.common.aws import Role
from penstock.connectors.files.read.ledger import Shape
from penstock.connectors.files.read.names import Templated
from penstock.connectors.files.read.plan import Errors, SourcePlan
from penstock.connectors.files.read.rows import BYTES_KEY, OPTIONAL_BYTES_KEY, Dress
from penstock.connectors.files.read.scan import Finding
from penstock.connectors.files.settings import s3
from penstock.connectors.files.settings.connector import ObjectConnector
from penstock.connectors.files.settings.objects import amazon_reasons, url_check
from penstock.connectors.files.settings.source import (
    CHANGED,
    LATE,
    RECORD_MAX_BYTES,
    REMEMBERED,
    SOURCE_KEYS,
    file_ledger,
    reading_by,
)
from penstock.connectors.files.settings.tables import ReadOptions
from penstock.connectors.files.stores.checks import Blame
from penstock.connectors.files.stores.s3 import S3Options

log = logging.getLogger(__name__)

_AWS: Final = "AWS"
_FILE: Final = "File"
_FORMATS: Final[Mapping[str, str]] = {
    "avro": "Avro",
    "parquet": "Parquet",
    "jsonl": "Json",
    "bytes": "ByteArray",
}


def _template_problem(template: str | None) -> str | None:
    if template is None:
        return None
    try:
        Templated.of(template, "", None)
    except re.error as error:
        return f"It is not a regular expression: {error}"
    return None


BUCKET: Final = Key(
    "aws.s3.bucket.name",
    STRING,
    importance=MEDIUM,
    check=non_empty(),
    doc="The bucket; it must exist.",
    group=_AWS,
)
REGION: Final = Key(
    "aws.s3.region",
    STRING,
    default="us-east-1",
    importance=MEDIUM,
    check=non_empty(),
    doc="The bucket's region.",
    group=_AWS,
)
ENDPOINT: Final = Key(
    "aws.s3.endpoint",
    STRING,
    default=None,
    importance=LOW,
    check=url_check(),
    doc="The address of a store other than Amazon's: http://host:port.",
    group=_AWS,
)
PREFIX: Final = Key(
    "aws.s3.prefix",
    STRING,
    default="",
    importance=MEDIUM,
    doc="The prefix of object keys, before the part that file.name.template matches.",
    group=_AWS,
)
ACCESS_KEY: Final = Key(
    "aws.access.key.id",
    PASSWORD,
    default=Secret(""),
    importance=MEDIUM,
    doc="The access key's id. Without it, credentials come from the environment, a profile or the "
    "machine.",
    group=_AWS,
)
SECRET_KEY: Final = Key(
    "aws.secret.access.key",
    PASSWORD,
    default=Secret(""),
    importance=MEDIUM,
    doc="The access key's secret.",
    group=_AWS,
)
ROLE_ARN: Final = Key(
    "aws.sts.role.arn",
    STRING,
    default="",
    importance=MEDIUM,
    doc="The role to assume.",
    group=_AWS,
)
ROLE_SESSION: Final = Key(
    "aws.sts.role.session.name",
    STRING,
    default="",
    importance=MEDIUM,
    doc="The name of the role's sessions; by default the connector's name.",
    group=_AWS,
)
ROLE_EXTERNAL_ID: Final = Key(
    "aws.sts.role.external.id",
    STRING,
    default="",
    importance=MEDIUM,
    doc="The external id that the role requires.",
    group=_AWS,
)
RETRIES: Final = Key(
    "aws.s3.backoff.max.retries",
    INT,
    default=3,
    importance=MEDIUM,
    check=at_least(1),
    doc="How often a request is retried before the task pauses. The task then retries "
    "indefinitely.",
    group=_AWS,
)
TOPIC: Final = Key(
    "topic",
    STRING,
    default="",
    importance=MEDIUM,
    doc="The topic that records are sent to; by default what {{topic}} in file.name.template "
    "matches.",
    group=_FILE,
)
TEMPLATE: Final = Key(
    "file.name.template",
    STRING,
    importance=HIGH,
    check=checking(
        "a regular expression with {{topic}}, {{partition}}, {{start_offset}}, {{timestamp}}",
        _template_problem,
    ),
    doc="The pattern to find in object keys after the prefix; other objects are skipped.",
    group=_FILE,
)
FORMAT: Final = Key(
    "input.format",
    STRING,
    default="bytes",
    importance=MEDIUM,
    check=one_of(*_FORMATS, ignore_case=True),
    doc="The format of objects.",
    group=_FILE,
)
COMPRESSION: Final = Key(
    "file.compression.type",
    STRING,
    default="none",
    importance=MEDIUM,
    check=one_of("none", "gzip", "snappy", "zstd", ignore_case=True),
    doc="For jsonl and bytes: how objects are compressed.",
    group=_FILE,
)
BUFFER: Final = Key(
    "transformer.max.buffer.size",
    INT,
    default=4096,
    importance=MEDIUM,
    check=at_least(1),
    doc="For bytes: the size of a record, in bytes.",
    group=_FILE,
)
DISTRIBUTION: Final = Key(
    "distribution.type",
    STRING,
    default="object_hash",
    importance=MEDIUM,
    check=one_of("object_hash", "partition", ignore_case=True),
    doc="How objects are distributed among tasks: by their keys, or by {{partition}}, which keeps "
    "the order of the records of a partition.",
    group=_FILE,
)
START_KEY: Final = Key(
    "native.start.key",
    STRING,
    default="",
    importance=MEDIUM,
    doc="Only objects whose keys sort after this one are read.",
    group=_FILE,
)
TOLERANCE: Final = "errors.tolerance"
"""A setting of every connector: with `all`, unreadable objects and records are skipped."""
POLL_INTERVAL: Final = Key(
    "penstock.poll.interval.ms",
    INT,
    default=5_000,
    importance=LOW,
    check=at_least(1),
    doc="How long to wait before the bucket is listed again.",
    group=_FILE,
)
IGNORED: Final = (
    *("aws.credentials.provider", "aws.s3.backoff.delay.ms", "aws.s3.backoff.max.delay.ms"),
    *("aws.s3.fetch.buffer.size", "aws.s3.fetch.page.size", "aws.s3.part.size.bytes"),
    *("aws.s3.sse.algorithm", "aws.sts.config.endpoint", "aws.sts.role.session.duration"),
    *("max.poll.records", "ring.buffer.size", "schema.registry.url", "schemas.enable"),
    *("file.max.records", "input.type", "kafka.retry.backoff.ms"),
)
"""Settings of Aiven's source that have no meaning here."""


def _credentials_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """The id and the secret of a key are set together."""
    id, secret = (parsed.get(key.name) for key in (ACCESS_KEY, SECRET_KEY))
    are_set = [isinstance(value, Secret) and bool(value.value) for value in (id, secret)]
    if are_set[0] != are_set[1]:
        name = SECRET_KEY.name if are_set[0] else ACCESS_KEY.name
        yield name, f"{ACCESS_KEY.name} and {SECRET_KEY.name} must be set together"


def _name_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """The template has the parts that no setting replaces."""
    template = str(parsed.get(TEMPLATE.name) or "")
    if not parsed.get(TOPIC.name) and "{{topic}}" not in template:
        text = f"Either it or {{{{topic}}}} in {TEMPLATE.name} is needed"
        yield TOPIC.name, invalid(TOPIC.name, "", text)
    by_partition = str(parsed.get(DISTRIBUTION.name)).lower() == "partition"
    if by_partition and "{{partition}}" not in template:
        text = f"{DISTRIBUTION.name}=partition needs {{{{partition}}}} in it"
        yield TEMPLATE.name, invalid(TEMPLATE.name, template, text)


AIVEN_SOURCE: Final = ConfigDef(
    BUCKET,
    REGION,
    ENDPOINT,
    PREFIX,
    ACCESS_KEY,
    SECRET_KEY,
    ROLE_ARN,
    ROLE_SESSION,
    ROLE_EXTERNAL_ID,
    RETRIES,
    TOPIC,
    TEMPLATE,
    FORMAT,
    COMPRESSION,
    BUFFER,
    DISTRIBUTION,
    START_KEY,
    POLL_INTERVAL,
    CHANGED,
    REMEMBERED,
    LATE,
    *(key for key in SOURCE_KEYS if not key.name.endswith("compression.type")),
    rules=(_credentials_rule, _name_rule),
)


def aiven_options(config: Config, connector: str) -> S3Options:
    """Connection parameters of the bucket, from a valid configuration."""
    role = None
    if config[ROLE_ARN]:
        session = config[ROLE_SESSION] or connector or "penstock"
        role = Role(config[ROLE_ARN], session, config[ROLE_EXTERNAL_ID] or None)
    secret = config[SECRET_KEY]
    return S3Options(
        bucket=config[BUCKET],
        region=config[REGION],
        url=config[ENDPOINT] or None,
        key=config[ACCESS_KEY].value or None,
        secret=secret if secret.value else None,
        role=role,
        retries=config[RETRIES],
    )


def aiven_format(config: Config) -> str:
    """The format, as READINGS names it."""
    return _FORMATS[config[FORMAT].lower()]


def blame(options: S3Options) -> Blame:
    """The settings to blame for errors of the store."""
    reasons = amazon_reasons(ACCESS_KEY.name, SECRET_KEY.name, REGION.name)
    return Blame(reasons, BUCKET.name, (ENDPOINT if options.url else REGION).name)


def aiven_plan(config: Config) -> SourcePlan:
    """The plan of a valid configuration."""
    ignored = [name for name in IGNORED if name in config.props]
    if ignored:
        log.info("Ignoring settings that have no meaning in penstock: %s", ", ".join(ignored))
    skips = config.props.get(TOLERANCE, "none").lower() == "all"
    format = aiven_format(config)
    options = ReadOptions(
        compression=config[COMPRESSION].lower(),
        record_max_bytes=config[RECORD_MAX_BYTES],
        separator=None,
        slice_bytes=config[BUFFER],
    )
    names = Templated.of(
        config[TEMPLATE],
        config[PREFIX],
        config[TOPIC] or None,
        by_partition=config[DISTRIBUTION].lower() == "partition",
    )
    bucket = config[BUCKET]
    return SourcePlan(
        finding=Finding(
            prefixes=(config[PREFIX],),
            names=names,
            poll_ms=config[POLL_INTERVAL],
            start_after=config[START_KEY],
            again=config[CHANGED] == "read",
        ),
        reading=reading_by(format, options),
        ledger=file_ledger(
            config,
            Shape("objectKey", "recordCount", {"bucket": bucket}),
            f"s3://{bucket}/{config[PREFIX]}",
        ),
        errors=Errors(f"{TOLERANCE}=all", skips_files=skips, skips_records=skips),
        dress=Dress(key=OPTIONAL_BYTES_KEY if format == "Avro" else BYTES_KEY),
    )


SOURCE: Final = ObjectConnector(
    vendor=s3.VENDOR,
    class_name="io.aiven.kafka.connect.s3.source.S3SourceConnector",
    task_class="io.aiven.kafka.connect.s3.source.S3SourceTask",
    settings=AIVEN_SOURCE,
    options=aiven_options,
    plan=aiven_plan,
    modules=lambda config: ["fastavro"] if aiven_format(config) == "Avro" else [],
    checked=lambda config: [config[PREFIX]],
    blame=blame,
)
