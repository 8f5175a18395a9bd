"""The settings of the sink to and the source of Azure Blob Storage, under the names of Confluent's
connectors (connectors.md §13.4)."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.api import Backoff
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
)
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.settings import object_source, objects
from penstock.connectors.files.settings.connector import ObjectConnector, Vendor
from penstock.connectors.files.settings.extra import AZURE, modules_of
from penstock.connectors.files.settings.gcs import CONDITIONAL
from penstock.connectors.files.settings.sink import IGNORED, SINK_KEYS, SINK_RULES, compression
from penstock.connectors.files.stores.azure import AzureClient, AzureOptions
from penstock.connectors.files.stores.checks import Blame
from penstock.connectors.files.stores.tries import Tries
from penstock.connectors.files.write.plan import SinkPlan


def _account_problem(name: str | None) -> str | None:
    if name is None or re.fullmatch(r"[a-zA-Z0-9]{3,24}", name):
        return None
    return "It does not have 3 to 24 letters and digits"


def _container_problem(name: str | None) -> str | None:
    if name is None or re.fullmatch(r"[$a-zA-Z0-9][a-zA-Z0-9-]{2,62}", name):
        return None
    return "It does not have 3 to 63 letters, digits and hyphens"


def _key_problem(key: Secret | None) -> str | None:
    try:
        b64decode(key.value if key else "", validate=True)
    except ValueError:
        return "It is not a key: not in base64"
    return None


# fmt: off
_CONNECTION: Final = Group("Azure", importance=HIGH)
_UPLOADS: Final = Group("Azure", importance=HIGH)
ACCOUNT: Final = _CONNECTION.text("azblob.account.name", REQUIRED,
    "The storage account.", check=checking("3 to 24 letters and digits", _account_problem))
ACCOUNT_KEY: Final = _CONNECTION.secret("azblob.account.key", "",
    "The account's key. Either it or `azblob.sas.token` is required.",
    check=checking("a key in base64", _key_problem))
SAS_TOKEN: Final = _CONNECTION.secret("azblob.sas.token", "",
    "A shared access signature, instead of the account's key.")
CONTAINER: Final = _CONNECTION.text("azblob.container.name", "default",
    "The container; it must exist.",
    check=checking("3 to 63 letters, digits and hyphens", _container_problem), importance=MEDIUM)
STORE_URL: Final = objects.store_url(_CONNECTION,
    "The account's address, if not https://<account>.blob.core.windows.net: that of another Azure "
    "cloud, a private one, or http://host:port/account.", "http://host:port/account")
BLOCK_SIZE: Final = objects.part_size(_UPLOADS, "azblob.block.size", 104_857_600, "block", order=6)
RETRIES: Final = objects.retries(_CONNECTION, "azblob.retry.retries", least=1, order=7)
RETRY_TYPE: Final = _CONNECTION.choice("azblob.retry.type", "EXPONENTIAL", ("EXPONENTIAL", "FIXED"),
    "Whether the delay between retries doubles each time or stays the same.", ignore_case=True,
    importance=LOW)
RETRY_BACKOFF: Final = _CONNECTION.long("azblob.retry.backoff.ms", 4_000,
    "How long to wait before the first retry, in ms.", at_least=0, importance=LOW)
RETRY_MAX_BACKOFF: Final = _CONNECTION.long("azblob.retry.max.backoff.ms", 120_000,
    "The maximum delay before a retry, in ms.", at_least=1, importance=LOW)
TIMEOUT: Final = _CONNECTION.long("azblob.connection.timeout.ms", 30_000,
    "How long to wait for data of a response, in ms.", at_least=1, at_most=2_147_483_647_000,
    importance=MEDIUM)
COMPRESSION: Final = compression(_UPLOADS, "az", order=12)
PROXY: Final = objects.proxy(_CONNECTION, "azblob", user=None, order=14)
# fmt: on
_IGNORED: Final = ("azblob.retry.secondary.host",)
"""Settings of Confluent's connectors that have no meaning here."""
POLL_INTERVAL: Final = object_source.poll_interval("azblob.poll.interval.ms")


def credentials_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Either a key or a signature is set."""
    names = [
        key.name
        for key in (ACCOUNT_KEY, SAS_TOKEN)
        if isinstance(secret := parsed.get(key.name), Secret) and secret.value
    ]
    if not names:
        yield ACCOUNT_KEY.name, f"{ACCOUNT_KEY.name} or {SAS_TOKEN.name} must be set"
    elif len(names) > 1:
        yield SAS_TOKEN.name, f"{SAS_TOKEN.name} cannot be set with {ACCOUNT_KEY.name}"


AZURE_SINK: Final = ConfigDef(
    *(*_CONNECTION, *_UPLOADS),
    CONDITIONAL,
    *SINK_KEYS,
    rules=(*SINK_RULES, credentials_rule),
)
AZURE_SOURCE: Final = ConfigDef(
    *_CONNECTION,
    POLL_INTERVAL,
    *object_source.OBJECT_KEYS,
    rules=(*object_source.OBJECT_RULES, credentials_rule),
)


def azure_connection(config: Config) -> AzureOptions:
    """Connection parameters of the container, from a valid configuration of a sink or source."""
    key, sas = config[ACCOUNT_KEY], config[SAS_TOKEN]
    return AzureOptions(
        account=config[ACCOUNT],
        container=config[CONTAINER],
        url=config[STORE_URL] or None,
        key=key if key.value else None,
        sas=sas if sas.value else None,
        proxy=PROXY.of(config),
        tries=Tries(
            config[RETRIES],
            Backoff(
                config[RETRY_BACKOFF],
                config[RETRY_MAX_BACKOFF],
                grows=config[RETRY_TYPE].upper() == "EXPONENTIAL",
            ),
        ),
        timeout_s=config[TIMEOUT] / 1000,
    )


def azure_options(config: Config) -> AzureOptions:
    """Parameters of the container, from a valid configuration of a sink."""
    return replace(azure_connection(config), part_bytes=config[BLOCK_SIZE])


def blame(options: AzureOptions) -> Blame:
    """The settings to blame for errors of the store. At Azure's own address, an account that does
    not exist does not answer."""
    credentials = ACCOUNT_KEY.name if options.key is not None else SAS_TOKEN.name
    reasons = {
        "AuthenticationFailed": credentials,
        "AuthorizationFailure": credentials,
        "AuthorizationPermissionMismatch": credentials,
        "InvalidAuthenticationInfo": credentials,
        "KeyBasedAuthenticationNotPermitted": credentials,
        "NoAuthenticationInformation": credentials,
        "403": credentials,
        "InvalidUri": STORE_URL.name,
    }
    unreachable = STORE_URL if options.url else PROXY.url if options.proxy else ACCOUNT
    return Blame(reasons, CONTAINER.name, unreachable.name)


def azure_plan(config: Config) -> SinkPlan:
    """The plan of a valid configuration."""
    return objects.object_plan(config, COMPRESSION, CONDITIONAL, (*IGNORED, *_IGNORED))


def azure_source_plan(config: Config) -> SourcePlan:
    """The plan of a valid configuration of a source."""
    place = f"azure://{config[ACCOUNT]}/{config[CONTAINER]}/"
    ignored = (*object_source.IGNORED, *_IGNORED)
    return object_source.object_source_plan(config, POLL_INTERVAL, place, ignored)


_VENDOR: Final = Vendor(AzureClient, "azure.storage.blob", AZURE)
SINK: Final = ObjectConnector(
    vendor=_VENDOR,
    class_name="io.confluent.connect.azure.blob.AzureBlobStorageSinkConnector",
    task_class="io.confluent.connect.azure.blob.AzureBlobStorageSinkTask",
    settings=AZURE_SINK,
    options=lambda config, connector: azure_options(config),
    plan=azure_plan,
    modules=modules_of,
    checked=lambda config: [objects.name_to_check(config)],
    blame=blame,
)
SOURCE: Final = ObjectConnector(
    vendor=_VENDOR,
    class_name="io.confluent.connect.azure.blob.storage.AzureBlobStorageSourceConnector",
    task_class="io.confluent.connect.azure.blob.storage.AzureBlobStorageSourceTask",
    settings=AZURE_SOURCE,
    options=lambda config, connector: azure_connection(config),
    plan=azure_source_plan,
    modules=object_source.modules_of,
    checked=object_source.prefixes_of,
    blame=blame,
)
