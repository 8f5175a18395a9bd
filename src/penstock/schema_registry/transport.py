"""Sends requests to a registry: over HTTP, or to a `mock://` one inside the process.

The URL that responded last is tried first, and the next if one does not respond or fails (429,
5xx). If all fail, they are retried after a delay, `max.retries` times. A request that timed out is
not retried, so that a registry that hangs costs at most `http.read.timeout.ms` per URL. Then
`Unavailable` is raised, which is retriable.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from threading import Event
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

import httpx

from penstock.backoff import Backoff, Jitter
from penstock.config.define import Config
from penstock.errors import DataError, Unavailable
from penstock.host.tls import TlsSettings, client_context
from penstock.schema_registry import settings
from penstock.schema_registry.memory import MemoryRegistry

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_ACCEPT: Final = f"{CONTENT_TYPE}, application/vnd.schemaregistry+json, application/json"
_NOT_NOW: Final = frozenset((408, 429, 500, 502, 503, 504))
_ADVICE: Final = f"Check '{settings.URL.name}' and whether the registry is running."


class Refused(DataError):
    """The registry refused the request; a retry would not help.

    The message is the registry's, with its error code, as in Kafka Connect.
    """

    def __init__(self, http_status: int, error_code: int, message: str) -> None:
        self.http_status = http_status
        self.error_code = error_code
        super().__init__(f"{message}; error code: {error_code}")


class Transport(Protocol):
    """Sends one request to the registry."""

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> Any:
        """The JSON of the response; `path` is encoded.

        Raises Refused if the registry refuses, and Unavailable if it does not respond.
        """


def transport(config: Config) -> Transport:
    """The transport for a converter's settings. Raises ConfigInvalid for invalid TLS files."""
    urls = [url.rstrip("/") for url in config[settings.URL] if url]
    if urls[0].startswith(settings.MOCK):
        return MockTransport(urls[0].removeprefix(settings.MOCK))
    return HttpTransport(config, urls)


class MockTransport:
    """Requests to a registry in this process, which all converters with the same scope share."""

    _scopes: Final[dict[str, MemoryRegistry]] = {}

    def __init__(self, scope: str) -> None:
        self.registry = self._scopes.setdefault(scope, MemoryRegistry())

    @classmethod
    def forget(cls, scope: str) -> None:
        """Removes the registry of a scope with its content."""
        cls._scopes.pop(scope, None)

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> Any:
        answer = self.registry.answer(method, path, query or {}, body)
        if answer.status >= 400:
            raise Refused(answer.status, answer.body["error_code"], answer.body["message"])
        return answer.body


class HttpTransport:
    """Requests over HTTP, each on a new connection, as they are rare."""

    def __init__(
        self,
        config: Config,
        urls: list[str],
        *,
        wait: Callable[[float], object] | None = None,
        chance: Random | None = None,
    ) -> None:
        self._servers = [_Server.of(url) for url in urls]
        self._retries = max(0, config[settings.MAX_RETRIES])
        self._backoff = Backoff(
            config[settings.RETRY_WAIT], config[settings.RETRY_MAX_WAIT], jitter=Jitter.FULL
        )
        self._wait = wait or Event().wait
        self._chance = chance or Random()
        self._auth, self._headers = _credentials(config)
        proxy = config[settings.PROXY_HOST]
        self._client = httpx.Client(
            headers=self._headers,
            timeout=httpx.Timeout(
                config[settings.READ_TIMEOUT] / 1000,
                connect=config[settings.CONNECT_TIMEOUT] / 1000,
            ),
            proxy=f"http://{proxy}:{config[settings.PROXY_PORT]}" if proxy else None,
            verify=tls(config) if any(server.url.startswith("https") for server in self._servers)
            else False,
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,  # as in Java, the environment is ignored
            follow_redirects=True,
        )  # fmt: skip

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> Any:
        for attempt in range(self._retries + 1):
            problem = None
            for server in list(self._servers):
                try:
                    answer = self._client.request(
                        method,
                        server.url + path,
                        params=query or None,
                        json=body,
                        auth=self._auth or server.auth,
                        headers={"Content-Type": CONTENT_TYPE} if body is not None else None,
                    )
                except httpx.TransportError as cause:
                    problem = _Problem(server.url, _reason(cause), cause)
                    continue
                if answer.status_code in _NOT_NOW:
                    problem = _Problem(server.url, _said(answer))
                    continue
                self._prefer(server)
                return _content(answer)
            assert problem is not None  # there is at least one URL
            if isinstance(problem.cause, httpx.TimeoutException) or attempt == self._retries:
                raise problem.error() from problem.cause
            self._wait(self._backoff.delay_ms(attempt + 1, self._chance) / 1000)
        raise AssertionError("the last attempt returns or raises")

    def _prefer(self, server: _Server) -> None:
        if self._servers[0] is not server:
            self._servers.remove(server)
            self._servers.insert(0, server)


@dataclass(frozen=True, slots=True)
class _Server:
    """A URL without credentials, and its credentials."""

    url: str
    auth: tuple[str, str] | None

    @classmethod
    def of(cls, url: str) -> _Server:
        parts = urlsplit(url)
        if parts.username is None:
            return cls(url, None)
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        return cls(bare, (unquote(parts.username), unquote(parts.password or "")))


@dataclass(frozen=True, slots=True)
class _Problem:
    url: str
    what: str
    cause: Exception | None = None

    def error(self) -> Unavailable:
        return Unavailable(f"Schema Registry {self.url} {self.what}. {_ADVICE}")


def _reason(cause: httpx.TransportError) -> str:
    if isinstance(cause, httpx.ConnectTimeout):
        return f"did not accept a connection within '{settings.CONNECT_TIMEOUT.name}'"
    if isinstance(cause, httpx.TimeoutException):
        return f"did not answer within '{settings.READ_TIMEOUT.name}'"
    return f"cannot be reached ({cause})"


def _said(answer: httpx.Response) -> str:
    code, message = _error(answer)
    return f"answered {answer.status_code}: {message}; error code: {code}"


def _error(answer: httpx.Response) -> tuple[int, str]:
    try:
        body = answer.json()
        return int(body["error_code"]), str(body["message"])
    except (ValueError, KeyError, TypeError):
        return answer.status_code, answer.text.strip()[:500] or answer.reason_phrase


def _content(answer: httpx.Response) -> Any:
    if answer.is_success:
        try:
            return answer.json()
        except ValueError as cause:
            raise Refused(
                answer.status_code, 50005, f"{answer.request.url.host} did not answer in JSON"
            ) from cause
    raise Refused(answer.status_code, *_error(answer))


def _credentials(config: Config) -> tuple[tuple[str, str] | None, dict[str, str]]:
    """User and password for every server, if they are set, and the headers to send."""
    headers = {"Accept": _ACCEPT}
    if settings.BEARER_SOURCE in config:
        headers["Authorization"] = f"Bearer {config[settings.BEARER_TOKEN].value}"
        for key, header in (
            (settings.LOGICAL_CLUSTER, "target-sr-cluster"),
            (settings.IDENTITY_POOL, "Confluent-Identity-Pool-Id"),
        ):
            if text := config[key]:
                headers[header] = text
    headers.update(config.under(settings.HEADER_PREFIX))
    if config[settings.BASIC_SOURCE] != "USER_INFO":
        return None, headers
    info = config[settings.OLD_USER_INFO].value or config[settings.USER_INFO].value
    user, _, password = info.partition(":")
    return (user, password), headers


_PREFIX: Final = "schema.registry."
_PYTHON_CHOOSES: Final = ("ssl.protocol", "ssl.cipher.suites")


def tls(config: Config) -> ssl.SSLContext:
    """The TLS context for the `schema.registry.ssl.*` settings.

    Raises ConfigInvalid if a store cannot be read; the message names the setting.
    """
    settings = config.under(_PREFIX)
    used = {name: text for name, text in settings.items() if name not in _PYTHON_CHOOSES}
    return client_context(TlsSettings(used, _PREFIX))
