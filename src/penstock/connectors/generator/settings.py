"""The settings of a generator: the keys of Confluent's datagen connector, and ours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.api import ConfigInvalid, DataError
from penstock.api.avro import reads
from penstock.api.schema import Schema, Type
from penstock.api.settings import (
    HIGH,
    LONG,
    LOW,
    MEDIUM,
    REQUIRED,
    Config,
    ConfigDef,
    Group,
    at_least,
    checking,
    non_empty,
    unless_none,
)
from penstock.connectors.generator.makers import Make, maker
from penstock.connectors.generator.quickstarts import QUICKSTARTS

# fmt: off
_SETTINGS: Final = Group(importance=HIGH)
TOPIC: Final = _SETTINGS.text("kafka.topic", REQUIRED, "Topic to write to.", check=non_empty())
INTERVAL: Final = _SETTINGS.long("max.interval", 500,
    "Maximum time between two records of a task, in ms: it waits for a random part of it. 0: as "
    "fast as possible.", at_least=0)
ITERATIONS: Final = _SETTINGS.number("iterations", -1,
    "How many records each task sends; less than 1: unlimited.")
SCHEMA: Final = _SETTINGS.text("schema.string", "", "The Avro schema of values, as JSON.")
FILE: Final = _SETTINGS.text("schema.filename", "",
    "A file with the Avro schema of values, on every worker.")
KEY_FIELD: Final = _SETTINGS.text("schema.keyfield", "",
    "The field to use as the record key. By default, that of the quickstart.")


def _quickstart_problem(name: str) -> str | None:
    if not name or name.lower() in QUICKSTARTS:
        return None
    return f"must be one out of {','.join(sorted(QUICKSTARTS))}"


QUICKSTART: Final = _SETTINGS.text("quickstart", "",
    "A predefined schema.", check=checking("the name of a quickstart", _quickstart_problem),
    offers=tuple(sorted(QUICKSTARTS)))
SEED: Final = _SETTINGS.long("random.seed", None,
    "The seed of the random values: connectors with the same seed send the same records. Each "
    "task sends different records.", importance=LOW)
TIMEOUT: Final = _SETTINGS.ignored("generate.timeout", None,
    "generating a value takes too little time to need a limit", kind=LONG)
RATE: Final = _SETTINGS.double("penstock.records.per.second", None,
    "The rate of each task; replaces `max.interval`.", check=unless_none(at_least(0.001)),
    importance=MEDIUM)
ERROR_RATE: Final = _SETTINGS.double("penstock.error.rate", 0.0,
    "The fraction of records whose value is a string that does not match the schema, to test "
    "error handling.", at_least=0, at_most=1, importance=LOW)
AT_END: Final = _SETTINGS.choice("penstock.at.end", "fail", ("fail", "idle"),
    "What a task does after its `iterations`: `fail`, like datagen, or wait (`idle`).",
    offers=("fail", "idle"), importance=LOW)
TASK: Final = _SETTINGS.number("task.id", 0,
    "The number of a task. Set by the connector.", importance=LOW)
# fmt: on

_SOURCES: Final = (SCHEMA, FILE, QUICKSTART)


def _source_rule(values: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    used = [key.name for key in _SOURCES if values.get(key.name)]
    if len(used) != 1:
        names = [key.name for key in _SOURCES]
        for name in used or names:
            yield name, f"Must set exactly one of {', '.join(names)}"


DATAGEN: Final = ConfigDef(
    *_SETTINGS,
    rules=(_source_rule,),
)


class SchemaUnusable(ConfigInvalid):
    """No records can be generated from the configured schema; `setting` is the cause."""

    def __init__(self, setting: str, text: str) -> None:
        self.setting = setting
        self.text = text
        super().__init__([f"{setting}: {text}"])


@dataclass(frozen=True, slots=True)
class Design:
    """Schema, maker and key of the records."""

    schema: Schema
    make: Make
    key: str
    """The field that is the key; "" if there is none."""


def design_of(config: Config) -> Design:
    """Raises SchemaUnusable for a schema that cannot be read or generated, or has no such key."""
    quickstart = QUICKSTARTS.get(config[QUICKSTART].lower())
    if quickstart is not None:
        name, text = QUICKSTART.name, json.dumps(quickstart.schema)
    elif config[FILE]:
        name, text = FILE.name, _text_of(config[FILE])
    else:
        name, text = SCHEMA.name, config[SCHEMA]
    try:
        schema = reads(text).schema
        make = maker(json.loads(text))
    except (DataError, ValueError, KeyError, TypeError) as error:
        raise SchemaUnusable(name, f"unable to use the schema: {error}") from error
    if schema is None or schema.type is not Type.STRUCT:
        raise SchemaUnusable(name, "the schema is not a record")
    key = config[KEY_FIELD] or (quickstart.key if quickstart else "")
    if key and key not in schema.field_names:
        raise SchemaUnusable(
            KEY_FIELD.name,
            f"The schema does not contain the field provided in '{KEY_FIELD.name}'",
        )
    return Design(schema, make, key)


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaUnusable(FILE.name, f"Unable to find the schema file: {error}") from error
