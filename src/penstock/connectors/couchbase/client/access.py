"""Connection parameters of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.api import Extra
from penstock.api.settings import Secret

COUCHBASE: Final = Extra("couchbase", "Couchbase connectors", ("couchbase",))


@dataclass(frozen=True, slots=True)
class Tls:
    """Parameters of encrypted connections. Files are PEM or PKCS12, according to their content."""

    verifies_names: bool = True
    trusted: str = ""
    trusted_password: Secret = field(default_factory=lambda: Secret(""))
    trusted_setting: str = ""
    client: str = ""
    client_password: Secret = field(default_factory=lambda: Secret(""))
    client_setting: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """Nodes, credentials and timeouts. Times are in milliseconds."""

    nodes: tuple[str, ...]
    username: str
    password: Secret
    network: str = "auto"
    bootstrap_ms: int = 30_000
    tls: Tls | None = None
    timeouts_ms: Mapping[str, int] = field(default_factory=dict)  # by the SDK's names

    @property
    def url(self) -> str:
        """The SDK's connection string."""
        scheme = "couchbases" if self.tls is not None else "couchbase"
        return f"{scheme}://{','.join(self.nodes)}"
