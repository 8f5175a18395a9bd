"""Settings common to Confluent's and Aiven's connectors (connectors.md §15)."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, TypeVar
from urllib.parse import urlsplit

from penstock.api import ConfigInvalid, Extra
from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
    REQUIRED,
    Check,
    Group,
    Secret,
    checking,
    invalid,
)
from penstock.api.tls import TlsSettings, client_context

E = TypeVar("E", bound=Enum)

SEARCH: Final = Extra(
    "elasticsearch", "Connectors to Elasticsearch and OpenSearch", ("opensearchpy", "boto3")
)

WEEK_MS: Final = 7 * 86_400_000
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


# fmt: off
CONNECTION: Final = Group("Connector", importance=LOW)
URLS: Final = CONNECTION.listing("connection.url", REQUIRED,
    "The cluster's nodes, http://host:port or https://host:port. If one uses https, all do; the "
    "default scheme is http.",
    check=checking("URLs of the form http://host:port or https://host:port", _url_problem),
    importance=HIGH)
USERNAME: Final = CONNECTION.text("connection.username", None,
    "The user, for basic authentication.", importance=MEDIUM)
PASSWORD_KEY: Final = CONNECTION.secret("connection.password", None,
    "The user's password.", importance=MEDIUM)
BATCH: Final = CONNECTION.number("batch.size", 2_000,
    "Maximum number of documents in a bulk request.", at_least=1, at_most=1_000_000,
    importance=MEDIUM, order=10)
IN_FLIGHT: Final = CONNECTION.number("max.in.flight.requests", 5,
    "Maximum number of concurrent bulk requests per task.", at_least=1, at_most=1_000,
    importance=MEDIUM, order=12)
BUFFERED: Final = CONNECTION.number("max.buffered.records", 20_000,
    "How many of a task's documents may be pending before it stops reading records.", at_least=1,
    at_most=_MAX_INT)
LINGER: Final = CONNECTION.long("linger.ms", 1,
    "How long a bulk request with fewer than `batch.size` records waits for more.", at_least=0,
    at_most=WEEK_MS)


RETRIES: Final = CONNECTION.number("max.retries", 5,
    "How often to retry a request when the cluster is unreachable or busy (429). After that the "
    "task waits and retries indefinitely.", at_least=0, at_most=_MAX_INT, order=16)
BACKOFF: Final = CONNECTION.long("retry.backoff.ms", 100,
    "How long to wait before the first retry of a request; doubled each time, up to a minute.",
    at_least=0, at_most=86_400_000)
CONNECT_TIMEOUT: Final = CONNECTION.number("connection.timeout.ms", 1_000,
    "How long to wait for a connection; 0: indefinitely.", at_least=0, at_most=43_200_000)
READ_TIMEOUT: Final = CONNECTION.number("read.timeout.ms", 3_000,
    "How long to wait for a response before the request is retried; 0: indefinitely.", at_least=0,
    at_most=WEEK_MS)
CONVERSION: Final = Group("Data Conversion", importance=LOW)
KEY_IGNORE: Final = CONVERSION.flag("key.ignore", False,
    "Whether document ids are `topic+partition+offset` instead of keys.", importance=HIGH)
SCHEMA_IGNORE: Final = CONVERSION.flag("schema.ignore", False,
    "Whether the cluster infers mappings from documents, instead of using schemas.")
COMPACT: Final = CONVERSION.flag("compact.map.entries", True,
    "Whether maps with string keys become objects. Other maps become arrays of `key` and `value`.")
KEY_TOPICS: Final = CONVERSION.listing("topic.key.ignore", (),
    "Topics for which `key.ignore` is true.")
SCHEMA_TOPICS: Final = CONVERSION.listing("topic.schema.ignore", (),
    "Topics for which `schema.ignore` is true.")
DROP_INVALID: Final = CONVERSION.flag("drop.invalid.message", False,
    "Whether to skip records that cannot be converted. With `errors.tolerance=all` they are "
    "always sent to the dead letter queue.")
# fmt: on

COMMON_KEYS: Final = (*CONNECTION, *CONVERSION)


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
