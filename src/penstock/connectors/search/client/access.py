"""A cluster, with the client of OpenSearch, which works with Elasticsearch 7 to 9 too
(docs/decisions, 24). The client sends a request once; the writer retries it."""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

import orjson

from penstock.api import PenstockError
from penstock.api.settings import Secret
from penstock.connectors.common.aws import Role, assuming
from penstock.connectors.search.client.errors import Answered, Unreachable

_PORTS: Final = {"http": 80, "https": 443}
_NDJSON: Final = {"content-type": "application/x-ndjson"}


@dataclass(frozen=True, slots=True)
class Aws:
    """Parameters for signing requests to Amazon's service."""

    region: str
    service: str
    key: str | None
    secret: Secret | None
    role: str | None
    session: str | None
    external_id: str | None
    duration_s: int


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Connection parameters of a cluster. Timeouts in ms."""

    urls: tuple[str, ...]
    username: str | None = None
    password: Secret | None = None
    connect_ms: int = 1_000
    read_ms: int = 3_000
    compress: bool = False
    connections: int = 5
    proxy: str | None = None
    proxy_username: str | None = None
    proxy_password: Secret | None = None
    tls: ssl.SSLContext | None = None  # None: Python's default, if a URL is https
    aws: Aws | None = None


class Client:
    """A client of a cluster's nodes. Several threads may use it."""

    def __init__(self, options: ClientOptions) -> None:
        import opensearchpy
        import urllib3

        self._errors = opensearchpy.exceptions
        secure = any(url.startswith("https:") for url in options.urls)
        self.place = ", ".join(options.urls)
        arguments: dict[str, Any] = {}
        if options.aws is not None:
            arguments["http_auth"] = _signer(options.aws)
        elif options.username is not None and options.password is not None:
            arguments["http_auth"] = (options.username, options.password.value)
        if secure:
            arguments["ssl_context"] = tls = options.tls or ssl.create_default_context()
            if tls.verify_mode is ssl.CERT_NONE:
                # The configuration says so; a warning for each request adds nothing.
                warnings.simplefilter("ignore", urllib3.exceptions.InsecureRequestWarning)
        self._client = opensearchpy.OpenSearch(
            [_host(url, secure) for url in options.urls],
            connection_class=_connection(options),
            serializer=_serializer(),
            timeout=urllib3.Timeout(
                connect=options.connect_ms / 1000 or None, read=options.read_ms / 1000 or None
            ),
            max_retries=0,
            retry_on_timeout=False,
            http_compress=options.compress,
            pool_maxsize=options.connections,
            **arguments,
        )

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, str] | None = None,
    ) -> Any:
        """The answer. Raises Unreachable if none arrived or a retry may succeed, and Answered if
        the cluster refuses."""
        return self._perform(method, path, body, params, None)

    def bulk(self, body: bytes) -> Any:
        """The answer to a bulk request: `errors`, and an entry of `items` for each action."""
        params = {
            "filter_path": "errors,items.*.status,items.*.error.type,items.*.error.reason,"
            "items.*.error.index,items.*.error.caused_by"
        }
        return self._perform("POST", "/_bulk", body, params, _NDJSON)

    def exists(self, path: str) -> bool:
        """Whether a resource exists."""
        return bool(self._perform("HEAD", path, None, None, None))

    def close(self) -> None:
        self._client.close()

    def _perform(
        self,
        method: str,
        path: str,
        body: object,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
    ) -> Any:
        errors = self._errors
        try:
            return self._client.transport.perform_request(
                method, path, params=dict(params or {}), body=body, headers=headers
            )
        except errors.ConnectionError as error:  # also of TLS, and timeouts
            cause = getattr(error, "info", None) or error
            raise Unreachable(f"{self.place} did not respond: {cause}") from error
        except errors.TransportError as error:
            raise _answered(error) from error
        except errors.OpenSearchException as error:
            raise PenstockError(f"{self.place}: {error}") from error


def _answered(error: Any) -> PenstockError:
    status = error.status_code if isinstance(error.status_code, int) else 0
    info = error.info if isinstance(error.info, Mapping) else {}
    details = info.get("error", {})
    reason = details.get("reason") if isinstance(details, Mapping) else details
    answered = Answered(status, str(error.error), str(reason or error.error))
    if status in (429, 502, 503, 504):
        return Unreachable(str(answered))
    return answered


def path(*parts: str) -> str:
    """A path of these names.

    >>> path("a b", "_mapping")
    '/a%20b/_mapping'
    """
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _host(url: str, secure: bool) -> dict[str, Any]:
    """A node's address; without a scheme it is http, or https if another node's is."""
    whole = url if "://" in url else f"http://{url}"
    parts = urlsplit(whole)
    scheme = "https" if secure else "http"
    host: dict[str, Any] = {
        "host": parts.hostname or "",
        "port": parts.port or _PORTS[scheme],
        "scheme": scheme,
        "use_ssl": secure,
    }
    if parts.path.strip("/"):
        host["url_prefix"] = parts.path.strip("/")
    return host


def _serializer() -> Any:
    from opensearchpy.serializer import JSONSerializer

    class Serializer(JSONSerializer):
        """JSON by orjson; bytes are JSON already."""

        def dumps(self, data: Any) -> Any:
            return data if isinstance(data, bytes | str) else orjson.dumps(data).decode()

        def loads(self, s: str) -> Any:
            return orjson.loads(s)

    return Serializer()


def _connection(options: ClientOptions) -> type:
    from opensearchpy import Urllib3HttpConnection

    class Quiet(Urllib3HttpConnection):
        """A connection that logs neither failures nor their documents: it raises them."""

        def log_request_fail(self, *arguments: Any, **named: Any) -> None:
            return None

        def _create_urllib3_pool(self) -> None:
            super()._create_urllib3_pool()
            if not _checks_names(options):
                self.pool.assert_hostname = False

    return _proxied(Quiet, options) if options.proxy else Quiet


def _checks_names(options: ClientOptions) -> bool:
    """Whether names of servers are checked against their certificates. urllib3 does so by
    default."""
    return options.tls is None or options.tls.check_hostname


def _proxied(direct_class: Any, options: ClientOptions) -> type:
    import urllib3

    headers = None
    if options.proxy_username and options.proxy_password is not None:
        pair = f"{options.proxy_username}:{options.proxy_password.value}"
        headers = urllib3.make_headers(proxy_basic_auth=pair)

    class Proxied(direct_class):  # type: ignore[misc] # Any: the client is not imported above
        """A connection through an HTTP proxy."""

        def _create_urllib3_pool(self) -> None:
            direct: Any = self._urllib3_pool_factory()
            base = f"{direct.scheme}://{direct.host}:{direct.port}"
            context: dict[str, Any] = {}
            if direct.scheme == "https":
                context["ssl_context"] = options.tls
                if not _checks_names(options):
                    context["assert_hostname"] = False
            manager = urllib3.ProxyManager(
                str(options.proxy),
                proxy_headers=headers,
                timeout=direct.timeout,
                maxsize=options.connections,
                **context,
            )
            direct.close()
            self.pool = _ProxiedPool(manager, base)

    return Proxied


class _ProxiedPool:
    """The part of a urllib3 pool that the client uses."""

    def __init__(self, manager: Any, base: str) -> None:
        self._manager = manager
        self._base = base

    def urlopen(self, method: str, url: str, body: Any = None, **rest: Any) -> Any:
        return self._manager.urlopen(method, self._base + url, body=body, **rest)

    def close(self) -> None:
        self._manager.clear()


def _signer(aws: Aws) -> Any:
    import boto3
    from opensearchpy import Urllib3AWSV4SignerAuth

    session = boto3.Session(
        aws_access_key_id=aws.key,
        aws_secret_access_key=None if aws.secret is None else aws.secret.value,
        region_name=aws.region,
    )
    if aws.role is None:
        credentials: Any = session.get_credentials()
    else:
        role = Role(aws.role, aws.session or "", aws.external_id, aws.duration_s)
        credentials = _assumed(session, role)
    return Urllib3AWSV4SignerAuth(credentials, aws.region, aws.service)


def _assumed(session: Any, role: Role) -> Any:
    """Credentials of a role, renewed before they expire."""
    from botocore.credentials import RefreshableCredentials

    refresh = assuming(session, role)
    return RefreshableCredentials.create_from_metadata(
        metadata=refresh(), refresh_using=refresh, method="sts-assume-role"
    )


def has_errors(answer: Mapping[str, Any]) -> bool:
    """Whether some actions of a bulk request failed."""
    return bool(answer.get("errors"))


def outcomes(answer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The outcome of each action, in order: `status`, and `error` if it failed."""
    return [next(iter(item.values())) for item in answer["items"]]
