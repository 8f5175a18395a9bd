"""The settings of Aiven's source of S3 (connectors.md §13)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import (
    HIGH,
    LOW,
    REQUIRED,
    Config,
    ConfigDef,
    Group,
    Secret,
    checking,
    invalid,
    non_empty,
)
from penstock.connectors.common.aws import Role
from penstock.connectors.files.read.ledger import OffsetShape
from penstock.connectors.files.read.names import Templated
from penstock.connectors.files.read.plan import Errors, SourcePlan
from penstock.connectors.files.read.rows import BYTES_KEY, OPTIONAL_BYTES_KEY, Dress
from penstock.connectors.files.read.scan import Finding
from penstock.connectors.files.settings import s3
from penstock.connectors.files.settings.connector import ObjectConnector
from penstock.connectors.files.settings.ignored import log_ignored
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


_PARTS: Final = (
    "a regular expression with {{topic}}, {{partition}}, {{start_offset}}, {{timestamp}}"
)
TOLERANCE: Final = "errors.tolerance"
"""A setting of every connector: with `all`, unreadable objects and records are skipped."""

# fmt: off
_AWS: Final = Group("AWS", numbered=False)
BUCKET: Final = _AWS.text("aws.s3.bucket.name", REQUIRED,
    "The bucket; it must exist.", check=non_empty())
REGION: Final = _AWS.text("aws.s3.region", "us-east-1",
    "The bucket's region.", check=non_empty())
ENDPOINT: Final = _AWS.text("aws.s3.endpoint", None,
    "The address of a store other than Amazon's: http://host:port.", check=url_check(),
    importance=LOW)
PREFIX: Final = _AWS.text("aws.s3.prefix", "",
    "The prefix of object keys, before the part that file.name.template matches.")
ACCESS_KEY: Final = _AWS.secret("aws.access.key.id", "",
    "The access key's id. Without it, credentials come from the environment, a profile or the "
    "machine.")
SECRET_KEY: Final = _AWS.secret("aws.secret.access.key", "",
    "The access key's secret.")
ROLE_ARN: Final = _AWS.text("aws.sts.role.arn", "",
    "The role to assume.")
ROLE_SESSION: Final = _AWS.text("aws.sts.role.session.name", "",
    "The name of the role's sessions; by default the connector's name.")
ROLE_EXTERNAL_ID: Final = _AWS.text("aws.sts.role.external.id", "",
    "The external id that the role requires.")
RETRIES: Final = _AWS.number("aws.s3.backoff.max.retries", 3,
    "How often a request is retried before the task pauses. The task then retries indefinitely.",
    at_least=1)
_FILE: Final = Group("File", numbered=False)
TOPIC: Final = _FILE.text("topic", "",
    "The topic that records are sent to; by default what {{topic}} in file.name.template matches.")
TEMPLATE: Final = _FILE.text("file.name.template", REQUIRED,
    "The pattern to find in object keys after the prefix; other objects are skipped.",
    check=checking(_PARTS, _template_problem),
    importance=HIGH)
FORMAT: Final = _FILE.choice("input.format", "bytes", tuple(_FORMATS),
    "The format of objects.", ignore_case=True)
FORMER_FORMAT: Final = _FILE.refused("input.type", "",
    "The former name of `input.format`, which must be used instead.",
    "Use its new name: input.format")
COMPRESSION: Final = _FILE.choice("file.compression.type",
    "none", ("none", "gzip", "snappy", "zstd"),
    "For jsonl and bytes: how objects are compressed.", ignore_case=True)
BUFFER: Final = _FILE.number("transformer.max.buffer.size", 4096,
    "For bytes: the size of a record, in bytes.", at_least=1)
DISTRIBUTION: Final = _FILE.choice("distribution.type", "object_hash", ("object_hash", "partition"),
    "How objects are distributed among tasks: by their keys, or by {{partition}}, which keeps the "
    "order of the records of a partition.", ignore_case=True)
START_KEY: Final = _FILE.text("native.start.key", "",
    "Only objects whose keys sort after this one are read.")
POLL_INTERVAL: Final = _FILE.number("penstock.poll.interval.ms", 5_000,
    "How long to wait before the bucket is listed again.", at_least=1, importance=LOW)
# fmt: on
IGNORED: Final = (
    *("aws.credentials.provider", "aws.s3.backoff.delay.ms", "aws.s3.backoff.max.delay.ms"),
    *("aws.s3.fetch.buffer.size", "aws.s3.fetch.page.size", "aws.s3.part.size.bytes"),
    *("aws.s3.sse.algorithm", "aws.sts.config.endpoint", "aws.sts.role.session.duration"),
    *("max.poll.records", "ring.buffer.size", "schema.registry.url", "schemas.enable"),
    *("file.max.records", "kafka.retry.backoff.ms"),
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
    *_AWS,
    *_FILE,
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
    log_ignored(config, IGNORED)
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
            OffsetShape("objectKey", "recordCount", {"bucket": bucket}),
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
