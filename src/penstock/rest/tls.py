"""The TLS settings of the listeners and of requests to other workers.

See kafka-connect.md §1.1: settings with the listener's prefix if there are any, otherwise the plain
`ssl.*`, never a mixture. Requests to other workers use the settings of the main listeners, so that
one certificate serves a worker in both directions. Without a trust store, workers with the same
certificate trust each other.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.config import worker as worker_config
from penstock.config.define import Config
from penstock.host.tls import TlsSettings, client_context, server_context

MAIN: Final = "listeners.https."
ADMIN: Final = "admin.listeners.https."


def settings(config: Config, prefix: str) -> TlsSettings:
    """The settings of the listeners with this prefix, under their full names."""
    texts = worker_config.rest_ssl_settings(config, prefix)
    # Without any TLS settings, errors name those that are for listeners only.
    prefixed = bool(config.under(prefix)) or not texts
    return TlsSettings(texts, prefix if prefixed else "")


def listening(config: Config, prefix: str = MAIN) -> ssl.SSLContext:
    """The TLS context of https listeners. Raises ConfigInvalid."""
    return server_context(settings(config, prefix))


def forwarding(config: Config) -> Callable[[], ssl.SSLContext]:
    """Returns a function that creates the TLS context for requests to other workers.

    A worker with https listeners raises ConfigInvalid here for invalid settings. Any other worker
    may never need the context, and its `ssl.*` may be meant for Kafka clients: there the returned
    function raises.
    """
    make = partial(client_context, settings(config, MAIN), trusts_itself=True)
    if all(listener.protocol != "https" for listener in worker_config.listeners(config)):
        return make
    context = make()
    return lambda: context
