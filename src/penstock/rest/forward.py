"""Requests from one worker to another: forwarding to the leader, and signed internal ones.

kafka-connect.md §1.3 and §1.9 (KIP-507).
"""

from __future__ import annotations

import hmac
import ssl
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote, urlencode

import httpx
import orjson

from penstock.cluster.records import SessionKey
from penstock.config.macs import mac
from penstock.errors import ConfigInvalid, PenstockError

SIGNATURE: Final = "X-Connect-Authorization"
ALGORITHM: Final = "X-Connect-Request-Signature-Algorithm"
TIMEOUT_S: Final = 90.0


class Remote(PenstockError):
    """An error response of another worker, or no response."""

    def __init__(self, http_status: int, error_code: int, message: str) -> None:
        self.http_status = http_status
        self.error_code = error_code
        super().__init__(message)


def sign(body: bytes, key: SessionKey, algorithm: str) -> dict[str, str]:
    """The headers that sign a request with the session key; the worker has checked the
    algorithm."""
    signing = mac(algorithm)
    assert signing is not None, algorithm
    return {SIGNATURE: b64encode(signing.sign(key.key, body)).decode(), ALGORITHM: algorithm}


def verify(
    body: bytes, headers: Mapping[str, str], key: SessionKey | None, allowed: Sequence[str]
) -> None:
    """Raises Remote with Kafka Connect's status and text for an invalid signature."""
    signature, algorithm = headers.get(SIGNATURE), headers.get(ALGORITHM)
    if signature is None or algorithm is None:
        raise _refusal(400, "Internal request missing required signature")
    verifying = mac(algorithm)
    if algorithm not in allowed or verifying is None:
        raise _refusal(
            400,
            f"This worker does not support the '{algorithm}' key signing algorithm used by other "
            f"workers. This worker is currently configured to use: [{', '.join(allowed)}]. Check "
            "that all workers' configuration files permit the same set of signature algorithms, "
            "and correct any misconfigured worker and restart it.",
        )
    if key is None:
        raise _refusal(
            503,
            "This worker is still starting up and has not been able to read a session key from "
            "the config topic yet",
        )
    try:
        received = b64decode(signature, validate=True)
    except ValueError:
        raise _refusal(400, "The signature of the internal request is not Base64") from None
    if not hmac.compare_digest(received, verifying.sign(key.key, body)):
        raise _refusal(403, "Internal request contained invalid signature.")


def _refusal(status: int, message: str) -> Remote:
    return Remote(status, status, message)


def next_hop(forward: str | None) -> str | None:
    """The `forward` parameter of a forwarded request; None: do not forward again."""
    match forward:
        case None:
            return "true"
        case text if text.lower() == "true":
            return "false"
        case _:
            return None


class Client:
    """Sends requests to other workers; one connection pool for http and one for https.

    `tls` creates the TLS context when it is first needed; it may raise ConfigInvalid.
    """

    def __init__(self, tls: Callable[[], ssl.SSLContext] = ssl.create_default_context) -> None:
        self._tls = tls
        self._pools: dict[str, httpx.Client] = {}
        self._lock = threading.Lock()

    def send(
        self,
        method: str,
        url: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """The other worker's response; raises Remote for an error or no response."""
        target = f"{url}?{urlencode(query)}" if query else url
        all_headers = {"Content-Type": "application/json", **(headers or {})} if body else headers
        try:
            pool = self._pool(url)
            answer = pool.request(method, target, content=body or None, headers=all_headers)
        except (httpx.HTTPError, ConfigInvalid) as error:
            text = f"IO Error trying to forward REST request: {error}{_tls_advice(url, error)}"
            raise Remote(500, 500, text) from error
        if answer.status_code >= 400:
            raise _remote_error(answer)
        if answer.status_code not in (200, 201, 202, 204):
            text = f"Unexpected status code when handling forwarded request: {answer.status_code}"
            raise Remote(500, 500, text)
        return answer

    def _pool(self, url: str) -> httpx.Client:
        scheme = url.partition(":")[0].lower()
        with self._lock:
            pool = self._pools.get(scheme)
            if pool is None:
                pool = self._pools[scheme] = httpx.Client(
                    verify=self._tls() if scheme == "https" else False,
                    timeout=TIMEOUT_S,
                    headers={"Accept": "application/json", "User-Agent": "kafka-connect"},
                    follow_redirects=False,
                    trust_env=False,
                )
            return pool

    def close(self) -> None:
        with self._lock:
            for pool in self._pools.values():
                pool.close()


_REFUSED_US: Final = (
    "CERTIFICATE_REQUIRED",
    "UNKNOWN_CA",
    "BAD_CERTIFICATE",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_UNKNOWN",  # Java's word for most of them
)
"""OpenSSL's names of the alerts with which a peer refuses a certificate, or a missing one."""

_WHERE: Final = "(with the prefix listeners.https. where that is in use)"


def _tls_advice(url: str, error: BaseException) -> str:
    """Advice if TLS failed, or may have; otherwise empty."""
    if not url.startswith("https:"):
        return ""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        if cause.verify_code in (62, 64):  # X509_V_ERR_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH
            return (
                ". The other worker's certificate is for another name: set its "
                "rest.advertised.host.name to one it has, or turn the check off with an empty "
                f"ssl.endpoint.identification.algorithm {_WHERE}"
            )
        return (
            ". This worker does not trust the other one's certificate: put its issuer into "
            f"ssl.truststore.location {_WHERE}"
        )
    stores = f"check ssl.keystore.location here and ssl.truststore.location there {_WHERE}"
    if cause is not None and any(word in str(cause).upper() for word in _REFUSED_US):
        return f". The other worker does not accept this one's certificate: {stores}"
    # A Python server that refuses a certificate closes the connection before it sends its alert,
    # and OpenSSL has only a general alert for a missing certificate in TLSv1.2.
    if (
        isinstance(cause, ssl.SSLEOFError)
        or isinstance(error, httpx.RemoteProtocolError)
        or "HANDSHAKE_FAILURE" in str(cause)
    ):
        return (
            ". The other worker closed the connection; if its ssl.client.auth requests "
            f"certificates, it may not accept this one's: {stores}"
        )
    return ""


class LeaderClient:
    """Internal requests to the leader at a URL, signed while `key` returns a session key."""

    def __init__(
        self, client: Client, key: Callable[[], SessionKey | None], algorithm: str
    ) -> None:
        self._client = client
        self._key = key
        self._algorithm = algorithm

    def put_tasks(
        self, url: str, connector: str, configs: Sequence[Mapping[str, str | None]]
    ) -> None:
        """Submits a connector's task set. Raises Remote."""
        body = orjson.dumps(list(map(dict, configs)))
        self._ask("POST", f"{url}connectors/{quote(connector, safe='')}/tasks", body)

    def fence(self, url: str, connector: str) -> None:
        """Requests zombie fencing for a connector (KIP-618). Raises Remote."""
        self._ask("PUT", f"{url}connectors/{quote(connector, safe='')}/fence", b"")

    def _ask(self, method: str, url: str, body: bytes) -> None:
        key = self._key()
        headers = sign(body, key, self._algorithm) if key is not None else {}
        self._client.send(method, url, body=body, headers=headers)


def _remote_error(answer: httpx.Response) -> Remote:
    try:
        error = orjson.loads(answer.content)
        return Remote(answer.status_code, int(error["error_code"]), str(error["message"]))
    except (ValueError, KeyError, TypeError):
        return Remote(answer.status_code, answer.status_code, answer.text)
