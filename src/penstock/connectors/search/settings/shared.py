"""Settings common to Confluent's and Aiven's connectors (connectors.md §15)."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, TypeVar
from urllib.parse import urlsplit

from penstock.api import ConfigInvalid, Extra
from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    REQUIRED,
    STRING,
    Check,
    Key,
    Secret,
    between,
    checking,
    invalid,
)
from penstock.api.tls import TlsSettings, client_context

E = TypeVar("E", bound=Enum)

SEARCH: Final = Extra(
    "elasticsearch", "Connectors to Elasticsearch and OpenSearch", ("opensearchpy", "boto3")
)

CONNECTION: Final = "Connector"
CONVERSION: Final = "Data Conversion"
_WEEK_MS: Final = 7 * 86_400_000
_MAX_INT: Final = 2**31 - 1


def named(*names: str) -> Check:
    """One of these names, in any case."""

    def problem(value: str | None) -> str | None:
        if value is None or value.lower() in {name.lower() for name in names}:
            return None
        return f"String must be one of: {', '.join(names)}"

    return checking(f"one of {', '.join(names)}, in any case", problem)


def member(kinds: type[E], text: str) -> E:
    """The member of an enumeration whose value is a text, in any case."""
    return kinds(text.lower())


def _url_problem(urls: tuple[str, ...] | None) -> str | None:
    for url in urls or ():
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            valid = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port
        except ValueError:
            valid = False
        if not valid:
            return f"The provided url '{url}' is not a valid url."
    return None


URLS: Final = Key(
    "connection.url",
    LIST,
    default=REQUIRED,
    importance=HIGH,
    check=checking("URLs of the form http://host:port or https://host:port", _url_problem),
    doc="The cluster's nodes, http://host:port or https://host:port. If one uses https, all do; "
    "the default scheme is http.",
    group=CONNECTION,
    order=1,
)
USERNAME: Final = Key(
    "connection.username",
    STRING,
    default=None,
    importance=MEDIUM,
    doc="The user, for basic authentication.",
    group=CONNECTION,
    order=2,
)
PASSWORD_KEY: Final = Key(
    "connection.password",
    PASSWORD,
    default=None,
    importance=MEDIUM,
    doc="The user's password.",
    group=CONNECTION,
    order=3,
)
BATCH: Final = Key(
    "batch.size",
    INT,
    default=2_000,
    importance=MEDIUM,
    check=between(1, 1_000_000),
    doc="Maximum number of documents in a bulk request.",
    group=CONNECTION,
    order=10,
)
IN_FLIGHT: Final = Key(
    "max.in.flight.requests",
    INT,
    default=5,
    importance=MEDIUM,
    check=between(1, 1_000),
    doc="Maximum number of concurrent bulk requests per task.",
    group=CONNECTION,
    order=12,
)
BUFFERED: Final = Key(
    "max.buffered.records",
    INT,
    default=20_000,
    importance=LOW,
    check=between(1, _MAX_INT),
    doc="How many of a task's documents may be pending before it stops reading records.",
    group=CONNECTION,
    order=13,
)
LINGER: Final = Key(
    "linger.ms",
    LONG,
    default=1,
    importance=LOW,
    check=between(0, _WEEK_MS),
    doc="How long a bulk request with fewer than `batch.size` records waits for more.",
    group=CONNECTION,
    order=14,
)


def flush_timeout(default: int) -> Key[int]:
    """`flush.timeout.ms`."""
    return Key(
        "flush.timeout.ms",
        LONG,
        default=default,
        importance=LOW,
        check=between(1_000, _WEEK_MS),
        doc="How long the task waits for pending documents before it retries. Kafka Connect's task "
        "would fail; this one continues.",
        group=CONNECTION,
        order=15,
    )


RETRIES: Final = Key(
    "max.retries",
    INT,
    default=5,
    importance=LOW,
    check=between(0, _MAX_INT),
    doc="How often to retry a request when the cluster is unreachable or busy (429). After that "
    "the task waits and retries indefinitely.",
    group=CONNECTION,
    order=16,
)
BACKOFF: Final = Key(
    "retry.backoff.ms",
    LONG,
    default=100,
    importance=LOW,
    check=between(0, 86_400_000),
    doc="How long to wait before the first retry of a request; doubled each time, up to a minute.",
    group=CONNECTION,
    order=17,
)
CONNECT_TIMEOUT: Final = Key(
    "connection.timeout.ms",
    INT,
    default=1_000,
    importance=LOW,
    check=between(0, 43_200_000),
    doc="How long to wait for a connection; 0: indefinitely.",
    group=CONNECTION,
    order=18,
)
READ_TIMEOUT: Final = Key(
    "read.timeout.ms",
    INT,
    default=3_000,
    importance=LOW,
    check=between(0, _WEEK_MS),
    doc="How long to wait for a response before the request is retried; 0: indefinitely.",
    group=CONNECTION,
    order=19,
)
KEY_IGNORE: Final = Key(
    "key.ignore",
    BOOLEAN,
    default=False,
    importance=HIGH,
    doc="Whether document ids are `topic+partition+offset` instead of keys.",
    group=CONVERSION,
    order=1,
)
SCHEMA_IGNORE: Final = Key(
    "schema.ignore",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether the cluster infers mappings from documents, instead of using schemas.",
    group=CONVERSION,
    order=2,
)
COMPACT: Final = Key(
    "compact.map.entries",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether maps with string keys become objects. Other maps become arrays of `key` and "
    "`value`.",
    group=CONVERSION,
    order=3,
)
KEY_TOPICS: Final = Key(
    "topic.key.ignore",
    LIST,
    default=(),
    importance=LOW,
    doc="Topics for which `key.ignore` is true.",
    group=CONVERSION,
    order=4,
)
SCHEMA_TOPICS: Final = Key(
    "topic.schema.ignore",
    LIST,
    default=(),
    importance=LOW,
    doc="Topics for which `schema.ignore` is true.",
    group=CONVERSION,
    order=5,
)
DROP_INVALID: Final = Key(
    "drop.invalid.message",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether to skip records that cannot be converted. With `errors.tolerance=all` they are "
    "always sent to the dead letter queue.",
    group=CONVERSION,
    order=6,
)

COMMON_KEYS: Final = (
    URLS,
    USERNAME,
    PASSWORD_KEY,
    BATCH,
    IN_FLIGHT,
    BUFFERED,
    LINGER,
    RETRIES,
    BACKOFF,
    CONNECT_TIMEOUT,
    READ_TIMEOUT,
    KEY_IGNORE,
    SCHEMA_IGNORE,
    COMPACT,
    KEY_TOPICS,
    SCHEMA_TOPICS,
    DROP_INVALID,
)


def tls_context(props: Mapping[str, str], prefix: str) -> ssl.SSLContext | None:
    """The TLS context of the settings under a prefix; None if there are none. Raises
    ConfigInvalid."""
    used = {
        name.removeprefix(prefix): value
        for name, value in props.items()
        if name.startswith(f"{prefix}ssl.")
    }
    return client_context(TlsSettings(used, prefix)) if used else None


def credentials_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """A user and a password are set together."""
    if (parsed.get(USERNAME.name) is None) != (parsed.get(PASSWORD_KEY.name) is None):
        text = f"Both '{USERNAME.name}' and '{PASSWORD_KEY.name}' must be set."
        yield USERNAME.name, text
        yield PASSWORD_KEY.name, text


def mappings_of(
    setting: str, entries: Iterable[str], most: int, wording: Mapping[str, str]
) -> dict[str, str]:
    """Resources by topic, from a list of `topic:resource`. Raises ConfigInvalid."""
    resources: dict[str, str] = {}
    listed = list(entries)
    for entry in listed:
        parts = [part.strip() for part in entry.split(":")]
        if len(parts) != 2 or not all(parts):
            raise ConfigInvalid([invalid(setting, entry, wording["format"])])
        topic, resource = parts
        if topic in resources:
            raise ConfigInvalid([invalid(setting, entry, wording["topic"] % topic)])
        if resource in resources.values():
            raise ConfigInvalid([invalid(setting, entry, wording["resource"] % resource)])
        resources[topic] = resource
    if len(resources) > most:
        raise ConfigInvalid(
            [
                invalid(
                    setting, f"[{', '.join(listed)}]", wording["many"].format(len(resources), most)
                )
            ]
        )
    return resources


def secret_of(value: Secret | None) -> Secret | None:
    """The secret; None if it is empty."""
    return value if value is not None and value.value else None
