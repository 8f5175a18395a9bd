"""Connectors in files, as people keep them: a flat JSON object, a create request, or properties.

Stricter than standalone mode (kafka-connect.md §12.1), which reads everything but JSON as
properties: here a syntax error is reported with its position.
"""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from penstock.cli.exits import Unusable
from penstock.config.properties import ConnectorFile, parse_properties

STDIN: Final = "-"

_STATES: Final = ("RUNNING", "PAUSED", "STOPPED")
_REQUEST: Final = frozenset({"name", "config", "initial_state", "tasks", "type"})
"""The members of a create request; the last two are in responses of `GET /connectors/NAME`."""


def read_bytes(path: str) -> bytes:
    """The content of a file; `-` is standard input. Raises Unusable."""
    try:
        return sys.stdin.buffer.read() if path == STDIN else Path(path).expanduser().read_bytes()
    except OSError as error:
        raise Unusable(f"Cannot read '{path}': {error.strerror or error}.") from error


def read_connector(
    path: str, name: str | None = None, overrides: Mapping[str, str] | None = None
) -> ConnectorFile:
    """The connector that a file describes; `name` takes precedence over the name in the file,
    `overrides` over its settings. Raises Unusable."""
    return connector_of(read_bytes(path), path, name, overrides)


def connector_of(
    data: bytes, path: str, name: str | None = None, overrides: Mapping[str, str] | None = None
) -> ConnectorFile:
    """`read_connector` for the content of a file."""
    return connector_in(document_of(data, path), path, name, overrides)


def connector_in(
    document: Mapping[str, Any],
    path: str,
    name: str | None = None,
    overrides: Mapping[str, str] | None = None,
) -> ConnectorFile:
    """`read_connector` for a parsed document."""
    name = name or (overrides or {}).get("name")
    state, outer = None, None
    if isinstance(document.get("config"), dict):
        unknown = sorted(set(document) - _REQUEST)
        if unknown:
            raise Unusable(
                f"'{path}' contains '{unknown[0]}' besides 'config'; known there: name, "
                "initial_state."
            )
        state, outer = _state(document.get("initial_state"), path), document.get("name")
        if outer is not None and not isinstance(outer, str):
            raise Unusable(f"The name in '{path}' is not a string.")
        document = document["config"]
    config: dict[str, str | None] = {**texts(document, path), **(overrides or {})}
    inner = config.get("name")
    if name is None and outer is not None and inner is not None and outer != inner:
        raise Unusable(
            "Connector name configuration in 'config' doesn't match the one specified in 'name'"
            f" at '{path}'"
        )
    chosen = name or outer or inner
    if not chosen:
        raise Unusable(
            f"Connector configuration at '{path}' is missing the mandatory 'name' configuration",
            "Add it to the file, or use --name.",
        )
    return ConnectorFile(chosen, {**config, "name": chosen}, state)


def read_changes(path: str) -> dict[str, str | None]:
    """Settings to change; a JSON null removes a setting. Raises Unusable."""
    document = document_of(read_bytes(path), path)
    if isinstance(document.get("config"), dict):
        document = document["config"]
    return texts(document, path)


def read_offsets(path: str) -> dict[str, Any]:
    """`ConnectorOffsets` (kafka-connect.md §1.5), or only the list in it. Raises Unusable."""
    document = _json(read_bytes(path).removeprefix(codecs.BOM_UTF8), path, numbers=True)
    if isinstance(document, list):
        document = {"offsets": document}
    if not isinstance(document, dict) or not isinstance(document.get("offsets"), list):
        raise Unusable(
            f"'{path}' contains no offsets.",
            'The format is {"offsets": [{"partition": {…}, "offset": {…}}]}, as `penstock '
            "offsets get NAME --json` prints them; a null offset is removed.",
        )
    return document


def texts(document: Mapping[str, Any], path: str) -> dict[str, str | None]:
    """The settings as texts, numbers as they were written. Raises Unusable for anything nested."""
    config: dict[str, str | None] = {}
    for key, value in document.items():
        match value:
            case None | str():
                config[key] = value
            case bool():
                config[key] = "true" if value else "false"
            case _:
                raise Unusable(
                    f"The value of '{key}' in '{path}' is not a string, number or boolean."
                )
    return config


def settings(pairs: Sequence[str]) -> dict[str, str]:
    """The settings of `--set key=value`; the last value of a key applies. Raises Unusable."""
    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise Unusable(f"'{pair}' is not a setting.", "Write --set key=value.")
        values[key] = value
    return values


def document_of(data: bytes, path: str) -> dict[str, Any]:
    """The object in a JSON file, numbers as texts, or the settings in a properties file. Raises
    Unusable."""
    suffix, data = Path(path).suffix.lower(), data.removeprefix(codecs.BOM_UTF8)
    if suffix == ".properties" or (
        suffix != ".json" and not data.lstrip().startswith((b"{", b"["))
    ):
        return dict(parse_properties(data))
    document = _json(data, path)
    if not isinstance(document, dict):
        raise Unusable(f"'{path}' does not contain a JSON object.")
    return document


def _json(data: bytes, path: str, *, numbers: bool = False) -> Any:
    """The document; numbers as numbers, or as texts."""
    integer, real = (int, float) if numbers else (str, str)
    try:
        return json.loads(
            data.decode(),
            parse_int=integer,
            parse_float=real,
            parse_constant=_no_constant,
        )
    except (ValueError, RecursionError) as error:
        raise Unusable(f"'{path}' is not JSON: {error}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _state(value: object, path: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or value.upper() not in _STATES:
        raise Unusable(f"The initial_state in '{path}' is not one of {', '.join(_STATES)}.")
    return value.upper()
