"""What a trace of records hides: `penstock.trace.hidden.fields`, of a connector or the worker."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from penstock.config.checks import valid_regex
from penstock.config.declare import Group
from penstock.config.define import LOW, ConfigDef, Width
from penstock.config.regex import compile_java

# fmt: off
_TRACE: Final = Group("Trace")
HIDDEN_FIELDS: Final = _TRACE.text(
    "penstock.trace.hidden.fields", "password|passwd|secret|token|credential|private.?key|api.?key",
    "Fields and headers whose names contain a match of this regex (case insensitive) are hidden "
    "in `GET /connectors/NAME/trace`. Empty: none.", check=valid_regex(), importance=LOW,
    width=Width.LONG, label="Hidden Fields")
# fmt: on

TRACE: Final = ConfigDef(HIDDEN_FIELDS)


def hidden_fields(
    worker: Mapping[str, str], connector: Mapping[str, str | None]
) -> re.Pattern[str] | None:
    """The names to be hidden; None: none. The connector's own setting overrides the worker's."""
    props = {**worker, **connector}
    relevant = (
        {HIDDEN_FIELDS.name: props[HIDDEN_FIELDS.name]} if HIDDEN_FIELDS.name in props else {}
    )
    pattern = TRACE.parse(relevant)[HIDDEN_FIELDS]
    return compile_java(pattern, re.IGNORECASE) if pattern else None
