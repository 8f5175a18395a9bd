"""Sends requests to the workers of a cluster, in turn until one can be reached. A change is retried
only if it is certain that it was not carried out."""

from __future__ import annotations

import json
import re
import shlex
import ssl
from collections.abc import Callable, Mapping
from typing import Final

import httpx

from penstock.cli.clusters import Cluster, WorkerAddress
from penstock.cli.exits import CommandError, NoAnswer, Unusable
from penstock.cli.rest import RestAnswer, named, refusal
from penstock.clock import Clock

CONNECT_S: Final = 5.0
_RETRY_MS: Final = 500


class Connect:
    """The REST interface of one cluster.

    `timeout_s` bounds each response, `patience_s` how long requests are retried while the cluster
    rebalances. As a context manager it closes its connections.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Clock,
        pause: Callable[[float], object],
        timeout_s: float = 95.0,
        patience_s: float = 15.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.cluster = cluster
        self._addresses = list(cluster.addresses)
        self._clock = clock
        self._pause = pause
        self._timeout_s = timeout_s
        self._patience_ms = int(patience_s * 1000)
        secure = any(address.url.startswith("https:") for address in cluster.addresses)
        self._http = httpx.Client(
            # No proxies, no .netrc: workers are near, and credentials are explicit.
            trust_env=False,
            # Loading the system's trust store takes a while, and only https needs it.
            verify=cluster.tls() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            transport=transport,
        )

    def __enter__(self) -> Connect:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(
        self, path: str, query: Mapping[str, str] | None = None, *, within_s: float | None = None
    ) -> RestAnswer:
        return self.ask("GET", path, query=query, within_s=within_s)

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        within_s: float | None = None,
    ) -> RestAnswer:
        """The answer to a request. Raises RequestRefused for an error, NoAnswer without an answer.

        With `within_s`, each worker has that long and nothing is retried: for callers that poll.
        """
        patience_ms = self._patience_ms if within_s is None else 0
        timeout_s = self._timeout_s if within_s is None else min(within_s, self._timeout_s)
        deadline = self._clock.now() + patience_ms
        while True:
            response = self._sent(method, path, query, body, timeout_s)
            if response.is_success:
                return RestAnswer(response.status_code, response.content)
            name = named(path, body) or "NAME"
            refused = refusal(response.status_code, response.content, name)
            if not refused.passing or self._clock.now() + _RETRY_MS > deadline:
                raise refused
            self._pause(_RETRY_MS / 1000)

    def each(self, path: str) -> list[tuple[str, RestAnswer | CommandError]]:
        """The response of every worker of the cluster to a GET, errors included."""
        responses: list[tuple[str, RestAnswer | CommandError]] = []
        for address in self.cluster.addresses:
            try:
                response = self._request(address, "GET", path, None, None, self._timeout_s)
                responses.append((address.url, RestAnswer(response.status_code, response.content)))
            except httpx.RequestError as error:
                problem = nobody([(address.url, error)], self.cluster.origin)
                responses.append((address.url, problem))
        return responses

    def _sent(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: object,
        timeout_s: float,
    ) -> httpx.Response:
        problems: list[tuple[str, Exception]] = []
        for address in list(self._addresses):
            try:
                response = self._request(address, method, path, query, body, timeout_s)
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
                problems.append((address.url, error))
                continue
            except httpx.RequestError as error:
                if method == "GET":
                    problems.append((address.url, error))
                    continue
                raise NoAnswer(
                    f"{address.url} received the request but did not respond ({_reason(error)}).",
                    f"It may have been executed: check with {_status_command(path, body)}.",
                ) from error
            # From now on the one that answers comes first.
            self._addresses.remove(address)
            self._addresses.insert(0, address)
            return response
        raise nobody(problems, self.cluster.origin) from problems[-1][1]

    def _request(
        self,
        address: WorkerAddress,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: object,
        timeout_s: float,
    ) -> httpx.Response:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            return self._http.request(
                method,
                address.url + path,
                params=query,
                content=content,
                headers=headers,
                auth=self.cluster.auth(address),
                timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
            )
        except httpx.InvalidURL as error:
            raise Unusable(f"'{address.url}' is not the URL of a worker: {error}") from error


def nobody(problems: list[tuple[str, Exception]], origin: str = "") -> NoAnswer:
    """The error that no worker could be reached: which were tried, who named them (`origin`), and
    why they failed."""
    tried = "\n  ".join(f"{url}: {_reason(error)}" for url, error in problems)
    if any("CERTIFICATE" in str(error).upper() for _, error in problems):
        advice = (
            "The certificate is not trusted: set `ca` of the cluster in the configuration file to "
            "its issuer's certificate (docs/cli.md)."
        )
    elif any(isinstance(error, httpx.ReadTimeout) for _, error in problems):
        advice = "Raise --request-timeout, or name another worker with --url."
    else:
        advice = (
            f"{origin}\n"
            * bool(origin)
            + "To use another worker: --url http://HOST:PORT, or `export PENSTOCK_URL=…`, or "
            "--cluster with a configuration file (docs/cli.md).\n"
            "To start one: `penstock distributed FILE`, or `penstock demo --keep` for a whole "
            "cluster."
        )
    if len(problems) == 1:
        return NoAnswer(f"No worker answers at {tried}", advice)
    return NoAnswer(f"No worker answers. Tried:\n  {tried}", advice)


def _status_command(path: str, body: object) -> str:
    name = named(path, body)
    return f"`penstock status {shlex.quote(name)}`" if name else "`penstock status`"


def _reason(error: Exception) -> str:
    text = str(error)
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    if re.search(r"\bErrno 111\b|refused", text):
        return "connection refused; nothing listens there"
    return text or type(error).__name__
