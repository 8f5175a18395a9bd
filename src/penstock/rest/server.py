"""The HTTP server: all listeners of the worker, in one thread.

Creating it checks the settings and opens the listeners: a worker that cannot listen, or has an
invalid certificate, does not start.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from penstock.clock import Clock, SystemClock
from penstock.config import worker as worker_config
from penstock.config import worker_keys as keys
from penstock.config.define import Config
from penstock.config.listeners import Listener
from penstock.errors import StartupFailed
from penstock.rest import headers, tls
from penstock.rest.app import Context, admin_routes, application, main_routes

_STOP_S: Final = 10.0
_REQUESTS_S: Final = 5  # of it, for requests in progress


@dataclass(frozen=True, slots=True)
class _OpenListener:
    """An open listener; with `tls` it serves https."""

    listener: Listener
    socket: socket.socket
    tls: ssl.SSLContext | None
    admin: bool  # one of `admin.listeners`


class Server:
    """Binds the worker's `listeners` and `admin.listeners` when created, and serves after `start`.
    `port` is the actual port of the advertised listener.

    Raises ConfigInvalid for invalid TLS settings, StartupFailed for an address that cannot be
    bound.
    """

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._rules = headers.rules(config)
        self._admin = worker_config.admin_listeners(config)
        self._doors = _opened(config)
        self.port = _port(self._advertised())
        self._servers: list[uvicorn.Server] = []
        self._thread: threading.Thread | None = None

    @property
    def admin_ports(self) -> tuple[int, ...]:
        """The actual ports of `admin.listeners`, in their order."""
        return tuple(_port(door) for door in self._doors if door.admin)

    def start(self, context: Context) -> None:
        """Serves in a separate thread; returns at once."""
        main = application(context, main_routes(self._admin))
        apps: dict[bool, ASGIApp] = {
            False: headers.with_headers(main, self._rules, self._clock),
            True: application(context, admin_routes()),
        }
        served = [(_server(apps[door.admin], door.tls), door.socket) for door in self._doors]
        self._servers = [server for server, _ in served]

        async def serve() -> None:
            await asyncio.gather(*(server.serve([bound]) for server, bound in served))

        self._thread = threading.Thread(
            target=lambda: asyncio.run(serve()), name="rest", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stops accepting, waits a while for requests in progress, and closes."""
        for server in self._servers:
            server.should_exit = True
        if self._thread is not None:
            self._thread.join(_STOP_S)
        _close(self._doors)

    def _advertised(self) -> _OpenListener:
        """The advertised listener, or the first one if none has the protocol of
        `rest.advertised.listener` (a proxy in front does)."""
        listener = worker_config.advertised_listener(self._config)
        main = [door for door in self._doors if not door.admin]
        return next((door for door in main if door.listener == listener), main[0])


def _server(app: ASGIApp, context: ssl.SSLContext | None) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # they would come from the client itself
            lifespan="off",
            loop="asyncio",
            http="h11",
            ws="none",
            timeout_graceful_shutdown=_REQUESTS_S,
            ssl_context_factory=None if context is None else lambda _config, _default: context,
        )
    )


def _opened(config: Config) -> list[_OpenListener]:
    """Opens every listener, or none if one fails."""
    main, admin = worker_config.listeners(config), worker_config.admin_listeners(config) or ()
    # All contexts first: an invalid certificate is found before any port is bound.
    contexts = {
        prefix: tls.listening(config, prefix)
        for prefix, listeners in ((tls.MAIN, main), (tls.ADMIN, admin))
        if any(listener.protocol == "https" for listener in listeners)
    }
    doors: list[_OpenListener] = []
    try:
        for setting, prefix, listeners in (
            (keys.LISTENERS.name, tls.MAIN, main),
            (keys.ADMIN_LISTENERS.name, tls.ADMIN, admin),
        ):
            for listener in listeners:
                context = contexts[prefix] if listener.protocol == "https" else None
                doors.append(
                    _OpenListener(listener, _bound(listener, setting), context, prefix == tls.ADMIN)
                )
    except BaseException:
        _close(doors)
        raise
    return doors


def _bound(listener: Listener, setting: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    shown = f"{listener.protocol}://{listener.host}:{listener.port}"
    try:
        bound.bind((listener.host, listener.port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise StartupFailed(
                f"Port {listener.port} is in use; set '{setting}' to something other than {shown}."
            ) from error
        raise StartupFailed(
            f"Cannot listen on {shown}, which '{setting}' names: {error.strerror}."
        ) from error
    except OverflowError as error:
        bound.close()
        raise StartupFailed(
            f"Cannot listen on {shown}, which '{setting}' names: ports are 0 (any) to 65535."
        ) from error
    return bound


def _port(door: _OpenListener) -> int:
    return int(door.socket.getsockname()[1])


def _close(doors: Sequence[_OpenListener]) -> None:
    for door in doors:
        door.socket.close()
