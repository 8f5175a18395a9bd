"""The settings of the sink to S3 under the names of Aiven's connector (connectors.md §13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
    REQUIRED,
    Check,
    Config,
    ConfigDef,
    Group,
    Secret,
    checking,
    invalid,
    non_empty,
)
from penstock.connectors.common.aws import Role
from penstock.connectors.files.boundaries.spans import Rules
from penstock.connectors.files.boundaries.templates import (
    TemplateInvalid,
    TemplateNaming,
    compile_template,
)
from penstock.connectors.files.formats.avro import Avro
from penstock.connectors.files.formats.codecs import AVRO_CODECS
from penstock.connectors.files.formats.columns import Parquet
from penstock.connectors.files.formats.format import Format
from penstock.connectors.files.formats.joined import Compressed, Joined
from penstock.connectors.files.settings import s3
from penstock.connectors.files.settings.connector import ObjectConnector
from penstock.connectors.files.settings.ignored import log_ignored
from penstock.connectors.files.settings.objects import amazon_reasons, named_object, url_check
from penstock.connectors.files.stores.checks import Blame
from penstock.connectors.files.stores.s3 import S3Options
from penstock.connectors.files.write.plan import ByTemplate, Clock, Nulls, SinkPlan
from penstock.connectors.files.write.shapes import (
    FIELDS,
    CsvShape,
    JsonShape,
    Shape,
    StructShape,
)

_UNLIMITED: Final = 2**62
_COMPRESSIONS: Final = {"none": "", "gzip": ".gz", "snappy": ".snappy", "zstd": ".zst"}
DEFAULT_TEMPLATE: Final = "{{topic}}-{{partition}}-{{start_offset}}"
_TYPES: Final = ("csv", "json", "jsonl", "parquet", "avro")


def template_problem(text: str | None) -> str | None:
    try:
        compile_template(text or "{{key}}")
    except TemplateInvalid as error:
        return f"It is not a template: {error}"
    return None


def _zone_problem(name: str | None) -> str | None:
    try:
        ZoneInfo("UTC" if not name or name == "Z" else name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "It is not a time zone of the IANA database"
    return None


def _fields_problem(fields: Iterable[str] | None) -> str | None:
    unknown = [name for name in fields or () if name.lower() not in FIELDS]
    return f"Unknown field {', '.join(unknown)}; use {', '.join(FIELDS)}" if unknown else None


def _renamed_check(name: str) -> Check:
    return checking("nothing", lambda value: None if value is None else f"Use its new name: {name}")


# fmt: off
_AWS: Final = Group("AWS")
BUCKET: Final = _AWS.text("aws.s3.bucket.name", REQUIRED,
    "The bucket; it must exist.", check=non_empty(), importance=HIGH)
REGION: Final = _AWS.text("aws.s3.region", "us-east-1",
    "The bucket's region.", check=non_empty())
ENDPOINT: Final = _AWS.text("aws.s3.endpoint", None,
    "The address of a store other than Amazon's: http://host:port.", check=url_check(),
    importance=LOW)
PREFIX: Final = _AWS.text("aws.s3.prefix", None,
    "The prefix of object names. If it contains variables of `file.name.template`, that template "
    "is ignored: names are `<prefix><topic>-<partition>-<offset of 20 digits>`.")
ACCESS_KEY: Final = _AWS.secret("aws.access.key.id", None,
    "The access key's id. Without it, credentials come from the environment or the machine.")
SECRET_KEY: Final = _AWS.secret("aws.secret.access.key", None,
    "The access key's secret.")
SSE: Final = _AWS.choice("aws.s3.sse.algorithm", "", ("", "AES256", "aws:kms"),
    "How the store encrypts objects.")
PART_SIZE: Final = _AWS.number("aws.s3.part.size.bytes", 5_242_880,
    "The size of the parts of a large object, in bytes; less than 5 MB counts as 5 MB.", at_least=1,
    at_most=2_000_000_000)
RETRIES: Final = _AWS.number("aws.s3.backoff.max.retries", 3,
    "How often a request is retried before the task pauses. The task then retries indefinitely.",
    at_least=1, at_most=30)
_STS: Final = Group("AWS STS")
ROLE_ARN: Final = _STS.text("aws.sts.role.arn", None,
    "The role to assume.")
ROLE_SESSION: Final = _STS.text("aws.sts.role.session.name", None,
    "The name of the role's sessions; by default the connector's name.")
ROLE_EXTERNAL_ID: Final = _STS.text("aws.sts.role.external.id", None,
    "The external id that the role requires.")
ROLE_DURATION: Final = _STS.number("aws.sts.role.session.duration", 3600,
    "How long a session lasts, in seconds.", at_least=900, at_most=43_200)
STS_ENDPOINT: Final = _STS.text("aws.sts.config.endpoint", None,
    "The address of the service that issues the role's credentials.", check=url_check())
_FILE: Final = Group("File", importance=LOW)
TEMPLATE: Final = _FILE.text("file.name.template", None,
    "The template of object names, with {{topic}}, {{partition:padding=true}}, "
    "{{start_offset:padding=true}}, {{timestamp:unit=yyyy|MM|dd|HH}} and {{key}}; by default "
    "{{topic}}-{{partition}}-{{start_offset}} and the extension of the compression. With {{key}} "
    "and without {{start_offset}} an object contains the latest record of its key.",
    check=checking("a template", template_problem), importance=MEDIUM)
COMPRESSION: Final = _FILE.choice("file.compression.type", "gzip", tuple(_COMPRESSIONS),
    "How objects are compressed; Parquet files are compressed internally.", ignore_case=True,
    importance=MEDIUM)
MAX_RECORDS: Final = _FILE.number("file.max.records", 0,
    "How many records of a topic partition complete its objects; 0: offset commits complete them.",
    at_least=0, importance=MEDIUM)
NAME_ZONE: Final = _FILE.text("file.name.timestamp.timezone", None,
    "The time zone of {{timestamp}}; by default `timestamp.timezone`.",
    check=checking("a time zone", _zone_problem))
NAME_SOURCE: Final = _FILE.choice("file.name.timestamp.source", None, ("wallclock", "event"),
    "Whether {{timestamp}} is the wall-clock time or that of the record; by default "
    "`timestamp.source`.", ignore_case=True)
ZONE: Final = _FILE.text("timestamp.timezone", "Z",
    "The former name of `file.name.timestamp.timezone`.",
    check=checking("a time zone", _zone_problem))
SOURCE: Final = _FILE.choice("timestamp.source", "wallclock", ("wallclock", "event"),
    "The former name of `file.name.timestamp.source`.", ignore_case=True)
_FORMAT: Final = Group("Format")
OUTPUT_TYPE: Final = _FORMAT.choice("format.output.type", "csv", _TYPES,
    "The format.", ignore_case=True)
OUTPUT_FIELDS: Final = _FORMAT.listing("format.output.fields", ("value",),
    "Which fields of records are written.", check=checking(", ".join(FIELDS), _fields_problem))
VALUE_ENCODING: Final = _FORMAT.choice("format.output.fields.value.encoding",
    "base64", ("none", "base64"),
    "How values are written in CSV; keys and headers are always base64.", ignore_case=True)
ENVELOPE: Final = _FORMAT.flag("format.output.envelope", True,
    "Whether a record is an object with its fields even if there is only one; ignored for CSV.")
AVRO_CODEC: Final = _FORMAT.choice("avro.codec", "null", tuple(AVRO_CODECS),
    "How blocks of Avro files are compressed.", importance=LOW)
# fmt: on

_IGNORED: Final = (
    "aws.credentials.provider",
    "aws.s3.backoff.delay.ms",
    "aws.s3.backoff.max.delay.ms",
    "kafka.retry.backoff.ms",
)
_FORMER: Final = {
    "aws_access_key_id": ACCESS_KEY,
    "aws_secret_access_key": SECRET_KEY,
    "aws_s3_bucket": BUCKET,
    "aws_s3_endpoint": ENDPOINT,
    "aws_s3_region": REGION,
    "aws_s3_prefix": PREFIX,
    "output_fields": OUTPUT_FIELDS,
    "output_compression": COMPRESSION,
}
_FORMER_KEYS: Final = Group("Former names", importance=LOW, first=0)
for _name, _key in _FORMER.items():
    _FORMER_KEYS.text(
        _name,
        None,
        f"The former name of `{_key.name}`, which must be used instead.",
        check=_renamed_check(_key.name),
    )


def _credentials_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """The id and the secret of a key are set together."""
    for key, other in ((ACCESS_KEY, SECRET_KEY), (SECRET_KEY, ACCESS_KEY)):
        if _text(parsed.get(key.name)) and not _text(parsed.get(other.name)):
            yield other.name, f"{key.name} and {other.name} must be set together"


def envelope_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Without an envelope there is only one field."""
    fields = parsed.get(OUTPUT_FIELDS.name)
    if parsed.get(ENVELOPE.name) is False and isinstance(fields, tuple | list) and len(fields) != 1:
        text = f"When it is false, {OUTPUT_FIELDS.name} must contain only one field"
        yield ENVELOPE.name, invalid(ENVELOPE.name, False, text)


def _name_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """The template is valid, and fits the other settings."""
    prefix, template = parsed.get(PREFIX.name), parsed.get(TEMPLATE.name)
    if prefix:
        if problem := template_problem(_old_style(str(prefix))):
            yield PREFIX.name, invalid(PREFIX.name, prefix, problem)
    elif template and not template_problem(str(template)):
        limit = parsed.get(MAX_RECORDS.name)
        if compile_template(str(template)).is_compact and isinstance(limit, int) and limit > 1:
            text = f"When {TEMPLATE.name} is {template}, it must be either 1 or not set"
            yield MAX_RECORDS.name, invalid(MAX_RECORDS.name, limit, text)


AIVEN_S3_SINK: Final = ConfigDef(
    *(*_AWS, *_STS, *_FILE, *_FORMAT, *_FORMER_KEYS),
    rules=(_credentials_rule, envelope_rule, _name_rule),
)


def aiven_options(config: Config, connector: str) -> S3Options:
    """Connection parameters of the bucket, from a valid configuration."""
    role = None
    if arn := config[ROLE_ARN]:
        role = Role(
            arn,
            config[ROLE_SESSION] or connector or "penstock",
            config[ROLE_EXTERNAL_ID] or None,
            config[ROLE_DURATION],
            config[STS_ENDPOINT] or None,
        )
    secret = config[SECRET_KEY]
    return S3Options(
        bucket=config[BUCKET],
        region=config[REGION],
        url=config[ENDPOINT] or None,
        path_style=bool(config[ENDPOINT]),
        key=_text(config[ACCESS_KEY]) or None,
        secret=secret if _text(secret) else None,
        role=role,
        retries=config[RETRIES],
        part_bytes=config[PART_SIZE],
        extra={"ServerSideEncryption": config[SSE]} if config[SSE] else {},
    )


def blame(options: S3Options) -> Blame:
    """The settings to blame for errors of the store."""
    reasons = amazon_reasons(ACCESS_KEY.name, SECRET_KEY.name, REGION.name)
    return Blame(reasons, BUCKET.name, (ENDPOINT if options.url else REGION).name)


def aiven_plan(config: Config) -> SinkPlan:
    """The plan of a valid configuration."""
    log_ignored(config, _IGNORED)
    prefix = config[PREFIX]
    extension = extension_of(config)
    if prefix:
        return template_plan(config, f"{_old_style(prefix)}{extension}")
    return template_plan(config, config[TEMPLATE] or DEFAULT_TEMPLATE + extension)


def _checked(config: Config) -> Iterable[str]:
    prefix = (config[PREFIX] or "").partition("{{")[0]
    return [f"{prefix}.penstock"]


def extension_of(config: Config) -> str:
    """The default ending of names."""
    extension = _COMPRESSIONS[config[COMPRESSION].lower()]
    return f".avro{extension}" if config[OUTPUT_TYPE].lower() == "avro" else extension


def modules_of(config: Config) -> Sequence[str]:
    """The modules that the format of a configuration needs."""
    return ["fastavro"] if config[OUTPUT_TYPE].lower() == "avro" else []


def template_plan(config: Config, text: str) -> SinkPlan:
    """The plan of a valid configuration, for files that are named by a template."""
    template = compile_template(text)
    source = config[NAME_SOURCE] or config[SOURCE]
    name = config[NAME_ZONE] or config[ZONE]
    zone = ZoneInfo("UTC" if name == "Z" else name)
    clock = Clock.WALL if source.lower() == "wallclock" else Clock.RECORD
    shape, format = _format(config, config[OUTPUT_TYPE].lower(), config[COMPRESSION].lower())
    max_records = 0 if template.is_compact else config[MAX_RECORDS]
    return SinkPlan(
        rules=Rules(flush_size=max_records or _UNLIMITED, by_span=not template.has_key),
        naming=TemplateNaming(template),
        folders=ByTemplate(template, zone),
        zone=zone,
        clock=clock if template.units else None,
        time_field=(),
        nulls=Nulls.KEEP,
        report_nulls=False,
        tombstone_folder="",
        values=format,
        keys=None,
        headers=None,
        named=named_object,
        shape=shape,
        latest_only=template.is_compact,
        cut_on_flush=True,
    )


def _old_style(prefix: str) -> str:
    return prefix + "{{topic}}-{{partition}}-{{start_offset:padding=true}}"


def _format(config: Config, kind: str, compression: str) -> tuple[Shape, Format]:
    fields = [name.lower() for name in config[OUTPUT_FIELDS]]
    envelope = config[ENVELOPE]
    framed = "xerial" if compression == "snappy" else compression  # as Java does it
    match kind:
        case "csv":
            base64 = config[VALUE_ENCODING].lower() == "base64"
            return CsvShape(fields, base64=base64), Joined(framed)
        case "jsonl":
            return JsonShape(fields, envelope=envelope), Joined(framed)
        case "json":
            return JsonShape(fields, envelope=envelope), Joined(
                framed, begin=b"[\n", between=b",\n", end=b"\n]"
            )
    name = f"io.aiven.{kind}.output.schema.connector_records"
    shape = StructShape(fields, envelope=envelope, name=name)
    if kind == "parquet":
        return shape, Parquet(compression)
    return shape, Compressed(Avro(config[AVRO_CODEC]), framed)


def _text(value: object) -> str:
    return value.value if isinstance(value, Secret) else str(value or "")


SINK: Final = ObjectConnector(
    vendor=s3.VENDOR,
    class_name="io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    task_class="io.aiven.kafka.connect.s3.S3SinkTask",
    settings=AIVEN_S3_SINK,
    options=aiven_options,
    plan=aiven_plan,
    modules=modules_of,
    checked=_checked,
    blame=blame,
)
