"""Around a worker's start: waits for Kafka, applies connectors, and answers health checks."""

from __future__ import annotations

import logging
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from penstock.config.listeners import parse_listener
from penstock.errors import PenstockError, Unavailable

log = logging.getLogger(__name__)

DEFAULT_URL: Final = "http://127.0.0.1:8083"

_TRY_S: Final = 5.0
_PAUSE_S: Final = 1.0
_HEALTH_S: Final = 15.0  # a worker answers within 10
_ATTEMPTS: Final = 5  # workers that start together apply the same connectors
_STARTING_S: Final = "600"


def await_kafka(
    servers: Sequence[str],
    timeout_s: float,
    *,
    now: Callable[[], float],
    pause: Callable[[float], object],
) -> None:
    """Returns when one of the bootstrap servers accepts connections. Raises Unavailable if none
    does in time. Does not check their protocol."""
    deadline = now() + timeout_s
    logged = False
    while True:
        problems = []
        for server in servers:
            problem = _refused(server)
            if problem is None:
                return
            problems.append(f"{server}: {problem}")
        if now() >= deadline:
            raise Unavailable(
                f"Kafka did not answer within {timeout_s:.0f} s: {'; '.join(problems)}. Check "
                "CONNECT_BOOTSTRAP_SERVERS; CONNECT_CUB_KAFKA_TIMEOUT=SECONDS waits longer."
            )
        if not logged:
            log.info("waiting up to %.0f s for Kafka: %s", timeout_s, "; ".join(problems))
            logged = True
        pause(_PAUSE_S)


def _refused(server: str) -> str | None:
    """Why a server accepts no connection; None if it does."""
    host, _, port = server.strip().rpartition(":")
    if not host or not port.isdigit():
        return "not a HOST:PORT"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _TRY_S):
            return None
    except OSError as error:
        return error.strerror or str(error)


def local_url(settings: Mapping[str, str]) -> str:
    """Where this container reaches its own worker: the first http listener, or else the first
    https listener."""
    listeners = [parse_listener(text.strip()) for text in settings["listeners"].split(",")]
    listeners.sort(key=lambda listener: listener.protocol != "http")
    first = listeners[0]
    host = "127.0.0.1" if first.host in ("", "0.0.0.0", "::") else first.host
    return f"{first.protocol}://{f'[{host}]' if ':' in host else host}:{first.port}"


def healthy(url: str) -> str | None:
    """Why the worker at `url` is not healthy; None if it is. Its certificate is not checked: it is
    this container's own worker."""
    context = ssl._create_unverified_context() if url.startswith("https:") else None
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(f"{url}/health", timeout=_HEALTH_S):
            return None
    except urllib.error.HTTPError as error:
        return error.read().decode(errors="replace").strip() or str(error)
    except OSError as error:
        return str(error)


class Applying(threading.Thread):
    """Applies the connectors in a folder once the worker is healthy. A failure is logged; the
    worker continues."""

    def __init__(self, folder: str, url: str) -> None:
        super().__init__(name="apply", daemon=True)
        self._folder = folder
        self._url = url

    def run(self) -> None:
        try:
            self._call("health", "--wait", "--timeout", _STARTING_S)
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    output = self._call("apply", "-f", self._folder)
                    break
                except PenstockError:
                    if attempt == _ATTEMPTS:
                        raise
            for line in output.splitlines():
                log.info("%s: %s", self._folder, line)
        except (PenstockError, OSError) as error:
            log.error("the connectors in %s were not applied: %s", self._folder, error)

    def _call(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "penstock", *arguments, "--url", self._url],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise PenstockError(done.stderr.strip() or done.stdout.strip())
        return done.stdout
