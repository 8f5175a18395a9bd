"""How to reach a cluster, as a value, and sessions with it."""

from __future__ import annotations

import base64
import binascii
import contextlib
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock.api import ConfigInvalid, Extra, PenstockError
from penstock.api.settings import Secret, invalid
from penstock.connectors.cassandra.client.errors import CassandraUnavailable, error_of
from penstock.connectors.cassandra.client.reactor import connection_class

CASSANDRA: Final = Extra("cassandra", "Cassandra connectors", ("cassandra",))
"""The packages that the family needs."""

_ENCODED: Final = "base64:"
_CONNECT_S: Final = 5.0
_PROTOCOL: Final = 5  # tried first; older servers speak an older version


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a configuration's settings, for messages."""

    points: str
    user: str
    bundle: str = ""
    compression: str = ""
    tls: str = ""
    auth: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """A cluster, and the parameters of its connections. Times in seconds.

    `dc`: the data center whose nodes are used; empty: that of the first contact point. `bundle`: a
    secure connect bundle (Astra), in place of points and TLS. `krb_service`: the service that the
    Kerberos ticket is for; empty: no Kerberos.
    """

    points: tuple[str, ...]
    port: int
    names: Names
    dc: str = ""
    user: str = ""
    password: Secret = field(default_factory=lambda: Secret(""))
    krb_service: str = ""
    krb_principal: str = ""
    tls: ssl.SSLContext | None = None
    bundle: str = ""
    compression: str = ""
    connections: int = 1
    request_s: float = 30.0
    connect_s: float = _CONNECT_S
    fetch: int = 5_000
    policy: str = "TOKEN_AWARE"

    @contextlib.contextmanager
    def connected(self, what: str = "Cannot connect to Cassandra") -> Iterator[Any]:
        """A session, closed at the end; raises what `session` does."""
        session = self.session(what)
        try:
            yield session
        finally:
            close(session)

    def session(self, what: str = "Cannot connect to Cassandra") -> Any:
        """A session of the driver; close it with `close`. Raises CassandraUnavailable if no node
        answers, NotAllowed if the cluster rejects the user, ConfigInvalid."""
        connections = connection_class(encrypts=self.tls is not None or bool(self.bundle))
        from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
        from cassandra.policies import ExponentialReconnectionPolicy
        from cassandra.query import tuple_factory

        profile = ExecutionProfile(
            load_balancing_policy=self._policy(),
            request_timeout=self.request_s,
            row_factory=tuple_factory,
        )
        given: dict[str, Any] = {
            "execution_profiles": {EXEC_PROFILE_DEFAULT: profile},
            "connection_class": connections,
            "compression": self._compression(),
            "connect_timeout": self.connect_s,
            "control_connection_timeout": max(self.connect_s, 5.0),
            "reconnection_policy": ExponentialReconnectionPolicy(0.5, 15.0, max_attempts=None),
            "auth_provider": self._auth(),
            "idle_heartbeat_interval": 30,
            "monitor_reporting_enabled": False,
            "application_name": "penstock",
        }
        with tempfile.TemporaryDirectory(prefix="penstock-cassandra-") as folder:
            if self.bundle:
                given["cloud"] = {
                    "secure_connect_bundle": self._bundle(Path(folder)),
                    "use_default_tempdir": True,
                }
            else:
                given["contact_points"] = list(self.points)
                given["port"] = self.port
                if self.tls is not None:
                    given["ssl_context"] = self.tls
            cluster: Any = None
            try:
                cluster = Cluster(**given)
                cluster.protocol_version = _PROTOCOL
                session = cluster.connect()
            except Exception as error:
                if cluster is not None:
                    cluster.shutdown()
                if isinstance(error, ConfigInvalid):
                    raise
                raise self._problem(error, what) from error
        session.default_fetch_size = self.fetch
        return session

    @property
    def place(self) -> str:
        """The cluster's name in messages."""
        if self.bundle:
            return self.names.bundle
        return f"{', '.join(self.points)}, port {self.port}"

    def _problem(self, error: Exception, what: str) -> PenstockError:
        found = error_of(error, f"{what} ({self.place})")
        if not self.dc or not isinstance(found, CassandraUnavailable):
            return found
        return CassandraUnavailable(f"{found} (data center {self.dc})")

    def _policy(self) -> Any:
        from cassandra.policies import (
            DCAwareRoundRobinPolicy,
            RoundRobinPolicy,
            TokenAwarePolicy,
        )

        if self.policy == "ROUND_ROBIN":
            return RoundRobinPolicy()
        near = DCAwareRoundRobinPolicy(self.dc)
        return near if self.policy == "DC_AWARE_ROUND_ROBIN" else TokenAwarePolicy(near)

    def _auth(self) -> Any:
        from cassandra.auth import DSEGSSAPIAuthProvider, PlainTextAuthProvider

        if self.krb_service:
            try:
                return DSEGSSAPIAuthProvider(
                    service=self.krb_service, qops=["auth"], principal=self.krb_principal or None
                )
            except ImportError as error:
                raise ConfigInvalid(
                    [
                        f"{self.names.auth}=GSSAPI needs packages that are not installed; install "
                        "them with: pip install puresasl kerberos"
                    ]
                ) from error
        return PlainTextAuthProvider(self.user, self.password.value) if self.user else None

    def _compression(self) -> Any:
        name = self.compression.lower()
        if name in ("", "none"):
            return False
        from cassandra.connection import locally_supported_compressions

        if name not in locally_supported_compressions:
            module = {"lz4": "lz4", "snappy": "python-snappy"}[name]
            raise ConfigInvalid(
                [
                    invalid(
                        self.names.compression,
                        self.compression,
                        "a required package is not installed; install it with: pip install "
                        f"{module}",
                    )
                ]
            )
        return name

    def _bundle(self, folder: Path) -> str:
        if not self.bundle.startswith(_ENCODED):
            if not Path(self.bundle).is_file():
                raise ConfigInvalid([invalid(self.names.bundle, self.bundle, "does not exist")])
            return self.bundle
        try:
            data = base64.b64decode("".join(self.bundle[len(_ENCODED) :].split()), validate=True)
        except binascii.Error as error:
            raise ConfigInvalid(
                [invalid(self.names.bundle, "base64:…", f"is not Base64: {error}")]
            ) from error
        path = folder / "bundle.zip"
        path.write_bytes(data)
        return str(path)


def close(session: Any) -> None:
    """Closes a session, its connections and the driver's threads."""
    session.cluster.shutdown()
