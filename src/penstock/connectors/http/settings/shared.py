"""Settings common to all HTTP connectors, and helpers to declare settings."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from penstock.api import ConfigInvalid, Extra
from penstock.api.settings import (
    LOW,
    Check,
    Config,
    Group,
    Key,
    Secret,
    between,
    checking,
    invalid,
    missing,
)
from penstock.api.tls import TlsSettings, client_context
from penstock.connectors.http.client.access import ClientOptions
from penstock.connectors.http.client.auth import Auth, Fixed, basic, bearer
from penstock.connectors.http.templates import Style, Template

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

HTTP: Final = Extra("http", "HTTP connectors", ("aiohttp", "httpx", "h2", "websockets"))
MODULES: Final = ("aiohttp",)


def given(config: Config, key: Key[T | None]) -> T:
    """The value of a setting that another one requires. Raises ConfigInvalid."""
    value = config[key]
    if value is None:
        raise ConfigInvalid([missing(key.name)])
    return value


def named(*names: str) -> Check:
    """A check for one of these names, in any case."""

    def problem(value: str | None) -> str | None:
        if value is None or value.lower() in {name.lower() for name in names}:
            return None
        return f"String must be one of: {', '.join(names)}"

    return checking(f"one of {', '.join(names)}, in any case", problem)


def member(kinds: type[E], text: str) -> E:
    """The member of an enumeration by its value, in any case."""
    return kinds(text.lower())


def _url_problem(text: str | None) -> str | None:
    if not text:
        return None
    try:
        parts = urlsplit(text)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return None
    except ValueError:
        pass
    return "it is not a URL: http://host:port/path or https://host:port/path"


URL: Final = checking("a URL of http or https", _url_problem)


def readable(read: Callable[[str], object], description: str) -> Check:
    """A check that `read` accepts a text; it raises ValueError with the reason otherwise."""

    def problem(text: str | None) -> str | None:
        if text is None:
            return None
        try:
            read(text)
        except (ValueError, IndexError) as error:
            return str(error)
        return None

    return checking(description, problem)


def template(style: Style, *, url: bool = False) -> Check:
    """A check for a template. A URL must be http or https, unless it begins with a placeholder."""
    opening = "${" if style is Style.DOLLAR else "{{"

    def problem(text: str | None) -> str | None:
        if text is None:
            return None
        try:
            Template(text, style)
        except ValueError as error:
            return str(error)
        if not url or text.lstrip().startswith(opening):
            return None
        return _url_problem(re.sub(style.value, "1", text))

    return checking("a template" + (" of a URL" if url else ""), problem)


# fmt: off
COMMON: Final = Group("Penstock", numbered=False)
VERSION_KEY: Final = COMMON.text("penstock.http.version", "1.1",
    "2: use HTTP/2 where the server supports it over TLS; needs https.", check=named("1.1", "2"),
    offers=("1.1", "2"), importance=LOW)
MAX_RESPONSE: Final = COMMON.number("penstock.http.max.response.bytes", 64 << 20,
    "Maximum size of a response in bytes; larger ones are refused.", at_least=1, importance=LOW)
BEARER: Final = COMMON.secret("penstock.http.bearer.token", None,
    "A token to send as `Authorization: Bearer`, instead of the connector's authentication.")
API_KEY_NAME: Final = COMMON.text("penstock.http.api.key.name", None,
    "The header or query parameter for the API key.")
API_KEY_VALUE: Final = COMMON.secret("penstock.http.api.key.value", None, "The API key.")
API_KEY_IN: Final = COMMON.text("penstock.http.api.key.in", "header",
    "Where to send the API key: in a header or in the query of the URL.",
    check=named("header", "query"), offers=("header", "query"), importance=LOW)
# fmt: on
LIVE: Final = (MAX_RESPONSE, BEARER, API_KEY_NAME, API_KEY_VALUE, API_KEY_IN)
OWN_TLS: Final = "penstock.http."


def tls_context(
    props: Mapping[str, str],
    *prefixes: str,
    aliases: Mapping[str, str] = {},
    trusts_all: bool = False,
    checks_names: bool = True,
) -> ssl.SSLContext | None:
    """The TLS context of the first prefix with any settings; None without settings. `aliases`:
    alternative names of settings. Raises ConfigInvalid."""
    context: ssl.SSLContext | None = None
    for prefix in prefixes:
        settings = {
            name.removeprefix(prefix): value
            for name, value in props.items()
            if name.startswith(f"{prefix}ssl.") and value
        }
        for alias, name in aliases.items():
            if props.get(alias):
                settings.setdefault(name, props[alias])
        if settings:
            context = client_context(TlsSettings(typed(settings), prefix))
            break
    if trusts_all or not checks_names:
        context = context or client_context(TlsSettings({}, ""))
        context.check_hostname = False
        if trusts_all:
            context.verify_mode = ssl.CERT_NONE
    return context


def typed(settings: dict[str, str]) -> dict[str, str]:
    """Adds the type PEM to stores without a type whose file is PEM."""
    for store in ("ssl.keystore", "ssl.truststore"):
        location = settings.get(f"{store}.location")
        if location and f"{store}.type" not in settings:
            try:
                with Path(location).open("rb") as file:
                    if b"-----BEGIN " in file.read(4096):
                        settings[f"{store}.type"] = "PEM"
            except OSError:
                continue  # creating the context reports the reason
    return settings


def own_auth(config: Config) -> Auth | None:
    """The authentication of penstock's own settings, if any."""
    token: Secret | None = config[BEARER]
    if token is not None:
        return bearer(token)
    name, value = config[API_KEY_NAME], config[API_KEY_VALUE]
    if name and value is not None:
        pair = ((name, value.value),)
        return Fixed(pair) if config[API_KEY_IN].lower() == "header" else Fixed((), pair)
    return None


def basic_auth(user: str | None, password: Secret | None) -> Auth | None:
    """Basic authentication, if a user is set."""
    return basic(user, password) if user else None


def api_key_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Requires name and value of the API key together."""
    name, value = parsed.get(API_KEY_NAME.name), parsed.get(API_KEY_VALUE.name)
    if bool(name) != (value is not None):
        missing = API_KEY_VALUE if name else API_KEY_NAME
        yield missing.name, f"{API_KEY_NAME.name} and {API_KEY_VALUE.name} must be set together"


def http2_rule(url: Key[Any]) -> Callable[[Mapping[str, object]], Iterable[tuple[str, str]]]:
    """Requires https for HTTP/2, which TLS negotiates."""

    def rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
        address = str(parsed.get(url.name) or "")
        if str(parsed.get(VERSION_KEY.name)) == "2" and address.startswith("http:"):
            yield (
                VERSION_KEY.name,
                f"{VERSION_KEY.name}=2 needs TLS: {url.name} must begin with https://",
            )

    return rule


def client_options(config: Config, **options: Any) -> ClientOptions:
    """Options of connections, combined with the common settings."""
    return ClientOptions(
        http2=config[VERSION_KEY] == "2", max_bytes=config[MAX_RESPONSE], **options
    )


def proxy_url(host: str | None, port: int | None) -> str | None:
    """The URL of a proxy."""
    return f"http://{host}:{port}" if host and port and port > 0 else None


def pairs_of(
    setting: str, text: str | Iterable[str], separator: str, middle: str = ":"
) -> tuple[tuple[str, str], ...]:
    """Parses pairs of name and value. Raises ConfigInvalid.

    >>> pairs_of("headers", "A: 1|B:2", "|")
    (('A', '1'), ('B', '2'))
    """
    entries = text.split(separator) if isinstance(text, str) else text
    pairs: list[tuple[str, str]] = []
    for entry in entries:
        if not entry.strip():
            continue
        name, colon, value = entry.partition(middle)
        if not colon or not name.strip():
            raise ConfigInvalid([invalid(setting, entry, f"it is not name{middle}value")])
        pairs.append((name.strip(), value.strip()))
    return tuple(pairs)


def modules(config: Config) -> tuple[str, ...]:
    """The Python modules that a configuration needs."""
    return ("aiohttp", "httpx", "h2") if config[VERSION_KEY] == "2" else MODULES


PORT: Final = between(0, 65_535)
