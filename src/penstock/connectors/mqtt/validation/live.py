"""Checks of a configuration against the broker: that it answers and accepts the user."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace

from penstock.api import Finding, PenstockError
from penstock.connectors.mqtt.client.options import Options

_MAX_S = 10.0


def findings(options: Options) -> Iterable[Finding]:
    """Connects briefly, with a separate client id and a clean session."""
    from penstock.connectors.mqtt.client.connection import Connection
    from penstock.connectors.mqtt.client.errors import setting_of

    probe = replace(options, clean=True, will=None, connect_s=min(options.connect_s, _MAX_S))
    connection = Connection(probe, f"{options.client_id or 'connect'}-{uuid.uuid4().hex[:8]}")
    try:
        connection.open()
    except PenstockError as error:
        setting = setting_of(error, options.names)
        if setting != options.names.client_id:  # the broker may refuse only this id
            yield Finding(setting, str(error))
    finally:
        connection.close()
