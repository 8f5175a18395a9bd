"""The settings of the sink to and the source of S3, under the names of Confluent's connectors
(connectors.md §13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
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
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.settings import object_source, objects
from penstock.connectors.files.settings.connector import ObjectConnector, Vendor
from penstock.connectors.files.settings.extra import FILES, modules_of
from penstock.connectors.files.settings.sink import IGNORED, SINK_KEYS, SINK_RULES, compression
from penstock.connectors.files.stores.checks import Blame
from penstock.connectors.files.stores.s3 import S3Client, S3Options
from penstock.connectors.files.write.plan import SchemaFolder, SinkPlan

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


_ACLS: Final = (
    *("", "private", "public-read", "public-read-write", "authenticated-read"),
    *("aws-exec-read", "bucket-owner-read", "bucket-owner-full-control", "log-delivery-write"),
)

# fmt: off
_CONNECTION: Final = Group("S3", importance=LOW)
_UPLOADS: Final = Group("S3", importance=LOW, first=13)
BUCKET: Final = _CONNECTION.text("s3.bucket.name", REQUIRED,
    "The bucket; it must exist.", check=non_empty(), importance=HIGH)
REGION: Final = _CONNECTION.text("s3.region", "us-west-2",
    "The bucket's region.", check=non_empty(), importance=MEDIUM)
STORE_URL: Final = objects.store_url(_CONNECTION,
    "The address of a store other than Amazon's: http://host:port.")
PATH_STYLE: Final = _CONNECTION.flag("s3.path.style.access.enabled", True,
    "Whether requests contain the bucket in the path instead of the host name.")
ACCESS_KEY: Final = _CONNECTION.text("aws.access.key.id", "",
    "The access key's id. Without it, credentials come from the environment, a profile or the "
    "machine, as is the default of Amazon's SDKs.", importance=HIGH)
SECRET_KEY: Final = _CONNECTION.secret("aws.secret.access.key", "",
    "The access key's secret.", importance=HIGH)
SESSION_TOKEN: Final = _CONNECTION.secret("penstock.s3.session.token", "",
    "The session token of a temporary key.")
PROFILE: Final = _CONNECTION.text("penstock.s3.profile", "",
    "A profile of the AWS configuration files on the machines that run tasks.")
PROVIDER: Final = _CONNECTION.text("s3.credentials.provider.class",
    "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
    "Where credentials come from, as a class name, whose package is ignored: the default chain, "
    "nowhere, or a role to assume.", check=checking(", ".join(_PROVIDERS), _provider_problem))
ROLE_ARN: Final = _CONNECTION.text("s3.credentials.provider.sts.role.arn", "",
    "The role to assume.")
ROLE_SESSION: Final = _CONNECTION.text("s3.credentials.provider.sts.role.session.name", "",
    "The name of the role's sessions; by default the connector's name.")
ROLE_EXTERNAL_ID: Final = _CONNECTION.text("s3.credentials.provider.sts.role.external.id", "",
    "The external id that the role requires.")
PART_SIZE: Final = objects.part_size(_UPLOADS, "s3.part.size", 2**31 - 1)
PART_RETRIES: Final = objects.retries(_CONNECTION, "s3.part.retries", order=14)
COMPRESSION: Final = compression(_UPLOADS, "s3", order=15)
SSE: Final = _UPLOADS.choice("s3.ssea.name", "", ("", "AES256", "aws:kms"),
    "How the store encrypts objects: AES256 or aws:kms.")
SSE_CUSTOMER_KEY: Final = _CONNECTION.secret("s3.sse.customer.key", "",
    "A key of 32 characters to encrypt objects with; the store does not keep it.", order=18)
SSE_KMS_KEY: Final = _UPLOADS.text("s3.sse.kms.key.id", "",
    "The key of aws:kms.", order=19)
ACL: Final = _UPLOADS.choice("s3.acl.canned", "", _ACLS,
    "The canned ACL of objects.")
STORAGE_CLASS: Final = _UPLOADS.text("penstock.s3.storage.class", "",
    "The storage class of objects, such as STANDARD_IA.")
TAGGING: Final = _UPLOADS.flag("s3.object.tagging", False,
    "Whether objects are tagged with startOffset, endOffset and recordCount.")
TAG_PAIRS: Final = Group("S3", numbered=False).refused("s3.object.tagging.key.value.pairs", "",
    "More tags of objects; not supported.",
    f"Other tags than those of {TAGGING.name} are not supported; remove it")
ACCELERATE: Final = _CONNECTION.flag("s3.wan.mode", False,
    "Whether Amazon's accelerated endpoint is used.", importance=MEDIUM, order=23)
PROXY: Final = objects.proxy(_CONNECTION, "s3")
SCHEMA_AFFIX: Final = _UPLOADS.choice("s3.schema.partition.affix.type",
    SchemaFolder.NONE.value, tuple(position.value for position in SchemaFolder),
    "Whether the name of a record's schema is a folder, `schema_name=…`, before (PREFIX) or after "
    "(SUFFIX) that of the partitioner.", importance=MEDIUM, order=27)
CONDITIONAL: Final = objects.conditional(_UPLOADS, "enable.conditional.writes")
# fmt: on

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
    *(*_CONNECTION, *_UPLOADS, TAG_PAIRS, *SINK_KEYS),
    rules=(*SINK_RULES, credentials_rule, store_rule),
)
S3_SOURCE: Final = ConfigDef(
    *_CONNECTION,
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
