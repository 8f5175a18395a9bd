"""The settings of the sink to and the source of S3, under the names of Confluent's connectors
(connectors.md §13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    LOW,
    MEDIUM,
    PASSWORD,
    STRING,
    Config,
    ConfigDef,
    Key,
    Secret,
    checking,
    invalid,
    non_empty,
    one_of,
)
from penstock.connectors.common.aws import Role
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.settings import object_source, objects
from penstock.connectors.files.settings.connector import ObjectConnector, Vendor
from penstock.connectors.files.settings.extra import FILES, modules_of
from penstock.connectors.files.settings.sink import IGNORED, SINK_KEYS, SINK_RULES
from penstock.connectors.files.stores.checks import Blame
from penstock.connectors.files.stores.s3 import S3Client, S3Options
from penstock.connectors.files.write.plan import SchemaFolder, SinkPlan

_S3: Final = "S3"
_MAX_PART: Final = 2**31 - 1

BUCKET: Final = Key(
    "s3.bucket.name",
    STRING,
    importance=HIGH,
    check=non_empty(),
    doc="The bucket; it must exist.",
    group=_S3,
    order=1,
)
REGION: Final = Key(
    "s3.region",
    STRING,
    default="us-west-2",
    importance=MEDIUM,
    check=non_empty(),
    doc="The bucket's region.",
    group=_S3,
    order=2,
)
STORE_URL: Final = objects.store_url(
    _S3, 3, "The address of a store other than Amazon's: http://host:port."
)
PATH_STYLE: Final = Key(
    "s3.path.style.access.enabled",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether requests contain the bucket in the path instead of the host name.",
    group=_S3,
    order=4,
)
ACCESS_KEY: Final = Key(
    "aws.access.key.id",
    STRING,
    default="",
    importance=HIGH,
    doc="The access key's id. Without it, credentials come from the environment, a profile or the "
    "machine, as is the default of Amazon's SDKs.",
    group=_S3,
    order=5,
)
SECRET_KEY: Final = Key(
    "aws.secret.access.key",
    PASSWORD,
    default=Secret(""),
    importance=HIGH,
    doc="The access key's secret.",
    group=_S3,
    order=6,
)
SESSION_TOKEN: Final = Key(
    "penstock.s3.session.token",
    PASSWORD,
    default=Secret(""),
    importance=LOW,
    doc="The session token of a temporary key.",
    group=_S3,
    order=7,
)
PROFILE: Final = Key(
    "penstock.s3.profile",
    STRING,
    default="",
    importance=LOW,
    doc="A profile of the AWS configuration files on the machines that run tasks.",
    group=_S3,
    order=8,
)
_PROVIDERS: Final = {
    "DefaultAWSCredentialsProviderChain": "default",
    "DefaultCredentialsProvider": "default",
    "AnonymousAWSCredentials": "anonymous",
    "AnonymousCredentialsProvider": "anonymous",
    "AwsAssumeRoleCredentialsProvider": "role",
}


def _provider_problem(name: str | None) -> str | None:
    if name is None or name.rpartition(".")[2] in _PROVIDERS:
        return None
    return f"It is not one of {', '.join(_PROVIDERS)}"


PROVIDER: Final = Key(
    "s3.credentials.provider.class",
    STRING,
    default="com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
    importance=LOW,
    check=checking(", ".join(_PROVIDERS), _provider_problem),
    doc="Where credentials come from, as a class name, whose package is ignored: the default "
    "chain, nowhere, or a role to assume.",
    group=_S3,
    order=9,
)
ROLE_ARN: Final = Key(
    "s3.credentials.provider.sts.role.arn",
    STRING,
    default="",
    importance=LOW,
    doc="The role to assume.",
    group=_S3,
    order=10,
)
ROLE_SESSION: Final = Key(
    "s3.credentials.provider.sts.role.session.name",
    STRING,
    default="",
    importance=LOW,
    doc="The name of the role's sessions; by default the connector's name.",
    group=_S3,
    order=11,
)
ROLE_EXTERNAL_ID: Final = Key(
    "s3.credentials.provider.sts.role.external.id",
    STRING,
    default="",
    importance=LOW,
    doc="The external id that the role requires.",
    group=_S3,
    order=12,
)
PART_SIZE: Final = objects.part_size("s3.part.size", _S3, 13, _MAX_PART)
PART_RETRIES: Final = objects.retries("s3.part.retries", _S3, 14)
COMPRESSION: Final = objects.compression("s3", _S3, 15)
SSE: Final = Key(
    "s3.ssea.name",
    STRING,
    default="",
    importance=LOW,
    check=one_of("", "AES256", "aws:kms"),
    doc="How the store encrypts objects: AES256 or aws:kms.",
    group=_S3,
    order=17,
)
SSE_CUSTOMER_KEY: Final = Key(
    "s3.sse.customer.key",
    PASSWORD,
    default=Secret(""),
    importance=LOW,
    doc="A key of 32 characters to encrypt objects with; the store does not keep it.",
    group=_S3,
    order=18,
)
SSE_KMS_KEY: Final = Key(
    "s3.sse.kms.key.id",
    STRING,
    default="",
    importance=LOW,
    doc="The key of aws:kms.",
    group=_S3,
    order=19,
)
ACL: Final = Key(
    "s3.acl.canned",
    STRING,
    default="",
    importance=LOW,
    check=one_of(
        *("", "private", "public-read", "public-read-write", "authenticated-read"),
        *("aws-exec-read", "bucket-owner-read", "bucket-owner-full-control", "log-delivery-write"),
    ),
    doc="The canned ACL of objects.",
    group=_S3,
    order=20,
)
STORAGE_CLASS: Final = Key(
    "penstock.s3.storage.class",
    STRING,
    default="",
    importance=LOW,
    doc="The storage class of objects, such as STANDARD_IA.",
    group=_S3,
    order=21,
)
TAGGING: Final = Key(
    "s3.object.tagging",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether objects are tagged with startOffset, endOffset and recordCount.",
    group=_S3,
    order=22,
)
TAG_PAIRS: Final = Key(
    "s3.object.tagging.key.value.pairs",
    STRING,
    default="",
    importance=LOW,
    check=checking(
        "empty",
        lambda pairs: (
            f"Other tags than those of {TAGGING.name} are not supported; remove it"
            if pairs
            else None
        ),
    ),
    doc="More tags of objects; not supported.",
    group=_S3,
)
ACCELERATE: Final = Key(
    "s3.wan.mode",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether Amazon's accelerated endpoint is used.",
    group=_S3,
    order=23,
)
PROXY: Final = objects.proxy("s3", _S3, 24)

SCHEMA_AFFIX: Final = Key(
    "s3.schema.partition.affix.type",
    STRING,
    default=SchemaFolder.NONE.value,
    importance=MEDIUM,
    check=one_of(*(position.value for position in SchemaFolder)),
    doc="Whether the name of a record's schema is a folder, `schema_name=…`, before (PREFIX) or "
    "after (SUFFIX) that of the partitioner.",
    group=_S3,
    order=27,
)

CONDITIONAL: Final = objects.conditional("enable.conditional.writes", _S3, 28)

_IGNORED: Final = (
    *IGNORED,
    "max.files.scan.limit",
    "s3.elastic.buffer.enable",
    "s3.elastic.buffer.init.capacity",
    "s3.http.send.expect.continue",
    "s3.retry.backoff.ms",
)
_SOURCE_IGNORED: Final = (
    *object_source.IGNORED,
    *("s3.retry.backoff.ms", "s3.retry.max.backoff.time.ms", "s3.http.send.expect.continue"),
)
POLL_INTERVAL: Final = object_source.poll_interval("s3.poll.interval.ms")


def credentials_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """The id and the secret of a key are set together; a role has an ARN."""
    id, secret = parsed.get(ACCESS_KEY.name), parsed.get(SECRET_KEY.name)
    has_secret = isinstance(secret, Secret) and bool(secret.value)
    if bool(id) != has_secret:
        name = SECRET_KEY.name if id else ACCESS_KEY.name
        yield name, f"{ACCESS_KEY.name} and {SECRET_KEY.name} must be set together"
    provider = str(parsed.get(PROVIDER.name) or "").rpartition(".")[2]
    if _PROVIDERS.get(provider) == "role" and not parsed.get(ROLE_ARN.name):
        yield ROLE_ARN.name, invalid(ROLE_ARN.name, "", f"{provider} needs a role")


def store_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Only Amazon's endpoints are accelerated; these know buckets by host names only."""
    if parsed.get(ACCELERATE.name) and parsed.get(STORE_URL.name):
        text = f"{ACCELERATE.name} is only for Amazon's store, not that of {STORE_URL.name}"
        yield ACCELERATE.name, invalid(ACCELERATE.name, True, text)


S3_SINK: Final = ConfigDef(
    *(BUCKET, REGION, STORE_URL, PATH_STYLE, ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, PROFILE),
    *(PROVIDER, ROLE_ARN, ROLE_SESSION, ROLE_EXTERNAL_ID, PART_SIZE, PART_RETRIES),
    *(COMPRESSION.type, COMPRESSION.level, SSE, SSE_CUSTOMER_KEY, SSE_KMS_KEY, ACL, STORAGE_CLASS),
    *(TAGGING, TAG_PAIRS, ACCELERATE, *PROXY.keys, SCHEMA_AFFIX, CONDITIONAL, *SINK_KEYS),
    rules=(*SINK_RULES, credentials_rule, store_rule),
)
S3_SOURCE: Final = ConfigDef(
    *(BUCKET, REGION, STORE_URL, PATH_STYLE, ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, PROFILE),
    *(PROVIDER, ROLE_ARN, ROLE_SESSION, ROLE_EXTERNAL_ID, PART_RETRIES, SSE_CUSTOMER_KEY),
    *(ACCELERATE, *PROXY.keys),
    POLL_INTERVAL,
    *object_source.OBJECT_KEYS,
    rules=(*object_source.OBJECT_RULES, credentials_rule, store_rule),
)


def s3_connection(config: Config, connector: str) -> S3Options:
    """Connection parameters of the bucket, from a valid configuration of a sink or source."""
    provider = _PROVIDERS[config[PROVIDER].rpartition(".")[2]]
    role = None
    if provider == "role":
        session = config[ROLE_SESSION] or connector or "penstock"
        role = Role(config[ROLE_ARN], session, config[ROLE_EXTERNAL_ID] or None)
    return S3Options(
        bucket=config[BUCKET],
        region=config[REGION],
        url=config[STORE_URL] or None,
        path_style=config[PATH_STYLE] and not config[ACCELERATE],
        accelerate=config[ACCELERATE],
        key=config[ACCESS_KEY] or None,
        secret=_unless_empty(config[SECRET_KEY]),
        token=_unless_empty(config[SESSION_TOKEN]),
        profile=config[PROFILE] or None,
        anonymous=provider == "anonymous",
        role=role,
        proxy=PROXY.of(config),
        retries=config[PART_RETRIES],
        extra=_customer_key(config, "AES256"),
    )


def s3_options(config: Config, connector: str) -> S3Options:
    """Parameters of the bucket, from a valid configuration of a sink."""
    return replace(
        s3_connection(config, connector),
        part_bytes=config[PART_SIZE],
        tags=config[TAGGING],
        extra=_extra(config),
    )


def _unless_empty(secret: Secret) -> Secret | None:
    return secret if secret.value else None


def _customer_key(config: Config, algorithm: str) -> dict[str, str]:
    customer = config[SSE_CUSTOMER_KEY].value
    return {"SSECustomerAlgorithm": algorithm, "SSECustomerKey": customer} if customer else {}


def _extra(config: Config) -> dict[str, str]:
    customer = _customer_key(config, config[SSE] or "AES256")
    arguments = {
        "ServerSideEncryption": "" if customer else config[SSE],
        "SSEKMSKeyId": config[SSE_KMS_KEY],
        **customer,
        "ACL": config[ACL],
        "StorageClass": config[STORAGE_CLASS],
    }
    return {name: value for name, value in arguments.items() if value}


def blame(options: S3Options) -> Blame:
    """The settings to blame for errors of the store."""
    tokens = dict.fromkeys(("ExpiredToken", "InvalidToken"), SESSION_TOKEN.name)
    reasons = objects.amazon_reasons(ACCESS_KEY.name, SECRET_KEY.name, REGION.name) | tokens
    return Blame(reasons, BUCKET.name, (STORE_URL if options.url else REGION).name)


def s3_plan(config: Config) -> SinkPlan:
    """The plan of a valid configuration."""
    plan = objects.object_plan(config, COMPRESSION, CONDITIONAL, _IGNORED)
    return replace(plan, schema_folder=SchemaFolder(config[SCHEMA_AFFIX]))


def s3_source_plan(config: Config) -> SourcePlan:
    """The plan of a valid configuration of a source."""
    place = f"s3://{config[BUCKET]}/"
    return object_source.object_source_plan(config, POLL_INTERVAL, place, _SOURCE_IGNORED)


VENDOR: Final = Vendor(S3Client, "boto3", FILES)
SINK: Final = ObjectConnector(
    vendor=VENDOR,
    class_name="io.confluent.connect.s3.S3SinkConnector",
    task_class="io.confluent.connect.s3.S3SinkTask",
    settings=S3_SINK,
    options=s3_options,
    plan=s3_plan,
    modules=modules_of,
    checked=lambda config: [objects.name_to_check(config)],
    blame=blame,
)
SOURCE: Final = ObjectConnector(
    vendor=VENDOR,
    class_name="io.confluent.connect.s3.source.S3SourceConnector",
    task_class="io.confluent.connect.s3.source.S3SourceTask",
    settings=S3_SOURCE,
    options=s3_connection,
    plan=s3_source_plan,
    modules=object_source.modules_of,
    checked=object_source.prefixes_of,
    blame=blame,
)
