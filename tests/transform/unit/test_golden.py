"""Every answer that was captured from Kafka Connect's transformations and predicates, and ours.

Intended differences are rows of `DEVIATIONS`, with their reasons; a row that no case needs fails,
so that it is removed.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pytest

from penstock.api import Failed, Predicate, Transform
from penstock.config.render import config_key_info
from penstock.data.records import Records
from penstock.errors import ConfigInvalid, PenstockError
from penstock.plugins.registry import Registry
from penstock.transform import BUILT_IN
from tests.parity.typed import (
    Json,
    json_records,
    same,
    without_null_fields,
)
from tests.places import TESTS

GOLDEN: Final = TESTS / "golden" / "transforms.jsonl.gz"
LINES: Final[list[Json]] = [
    json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).splitlines()
]
RECORDS: Final[dict[str, Json]] = LINES[0]["records"]
DEFINITIONS: Final[dict[str, Json]] = LINES[1]["definitions"]
CASES: Final = LINES[2:]
CLASSES: Final = {
    cls.plugin.class_name.removeprefix("org.apache.kafka.connect.transforms."): cls
    for cls in BUILT_IN
}


@dataclass(frozen=True, slots=True)
class Deviation:
    """Answers that may differ: which, and why."""

    reason: str
    applies: Callable[[Json, str, Json], bool]  # the case, the record, Kafka Connect's answer


def _years(node: Json) -> Iterator[int]:
    """The ms since the epoch of every date in an answer or a record."""
    if isinstance(node, dict):
        if isinstance(ms := node.get("date"), int):
            yield ms
        node = list(node.values())
    for each in node if isinstance(node, list) else ():
        yield from _years(each)


_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


DEVIATIONS: Final[Sequence[Deviation]] = (
    Deviation(
        "a struct that is a default is of another schema than its field, as far as Java can tell, "
        "so Kafka Connect fails where it is to be copied",
        lambda case, name, answer: "Struct schemas do not match." in str(answer),
    ),
    Deviation(
        "the message has the identity hash of a Java object in it; ours has the field's name",
        lambda case, name, answer: "InsertionSpec@" in str(answer),
    ),
    Deviation(
        "Python's dates are in the years 1 to 9999; others are refused",
        lambda case, name, answer: any(not _FIRST_MS <= ms <= _LAST_MS for ms in _years(answer)),
    ),
    Deviation(
        "having read the name of a time zone, Java goes on to write in it; we stay in UTC",
        lambda case, name, answer: (
            name.endswith(" PST") and case["config"]["target.type"] == "string"
        ),
    ),
    Deviation(
        "the record is wrong in two ways, and what is said is the other one",
        lambda case, name, answer: (
            name == "pair without a"
            and case["config"].get("operation") == "move"
            and "null used for required field" in str(answer)
        ),
    ),
    Deviation(
        "a struct that lacks a field it must have is refused by the converter, if not before",
        lambda case, name, answer: (
            name == "pair without a"
            and (case["plugin"] == "HoistField$Value" or case["config"].get("renames") == ":b")
        ),
    ),
)


def made(case: Json) -> Transform | Predicate:
    cls = CLASSES[case["plugin"]]
    return cls(cls.plugin.config.parse(case["config"]))


def reported(error: Exception) -> list[str]:
    """Class and message, as the golden file has them."""
    assert isinstance(error, PenstockError)
    message = error.problems[0] if isinstance(error, ConfigInvalid) else str(error)
    return [error.java_name, message]


def ours(plugin: Transform | Predicate, records: Records) -> list[Any]:
    """The result of each record: a batch of it alone, None, a bool, or its error."""
    failed: Failed = {}
    if isinstance(plugin, Predicate):
        found: list[Any] = list(plugin.test(records, failed))
    else:
        result = plugin.apply(records, failed)
        assert len(result.keys) == len(result.values) == len(result.topics)
        for column in (result.keys, result.values):
            assert not column.values or column.runs[-1].stop == len(column)
        found = [None] * len(records)
        for row, origin in enumerate(result.origins):
            found[origin] = result.only([row])
    for row, error in failed.items():
        found[row] = {"thrown": reported(error)}
    return found


def flat(records: Records) -> tuple[Any, ...]:
    """A batch of one record as values that `same` compares."""
    sides = [
        (column.schemas()[0], without_null_fields(column.schemas()[0], column.values[0]))
        for column in (records.keys, records.values)
    ]
    headers = [tuple(header) for header in (records.headers[0] if records.headers else ())]
    return (
        *(records.topics[0], records.partitions[0], records.timestamps[0]),
        *(tuple(records.offsets), *sides, headers),
    )


def agrees(mine: Any, theirs: Json, record: Json) -> bool:
    if isinstance(mine, Records):
        expected = record if theirs == "same" else theirs
        if not isinstance(expected, dict) or "thrown" in expected:
            return False
        return same(flat(mine), flat(json_records([expected])))
    return bool(mine == theirs)


def title(case: Json) -> str:
    return f"{case['plugin']} {json.dumps(case['config'], ensure_ascii=False)}"


NEEDED: Final[set[str]] = set()
"""Reasons of the deviations that were met."""


def deviates(case: Json, name: str, theirs: Json) -> bool:
    found = [each.reason for each in DEVIATIONS if each.applies(case, name, theirs)]
    NEEDED.update(found)
    return bool(found)


@cache
def differences(at: int) -> list[str]:
    """Where our answers differ from the case's at this index."""
    case = CASES[at]
    try:
        plugin = made(case)
    except PenstockError as error:
        found, theirs = reported(error), case.get("refused")
        if theirs == found or deviates(case, "", theirs):
            return []
        return [f"refused: {found}, not {theirs or case}"]
    if "refused" in case:
        return [f"not refused: {case['refused']}"]
    wrong: list[str] = []
    for together in (True, False):
        for names in _groups(list(case["answers"]), together=together):
            records = [RECORDS[name] for name in names]
            mine = ours(plugin, json_records(records))
            for name, one in zip(names, mine, strict=True):
                theirs = case["answers"][name]
                if agrees(one, theirs, RECORDS[name]):
                    continue
                if deviates(case, name, theirs):
                    continue
                shown = flat(one) if isinstance(one, Records) else one
                wrong.append(f"{name}{' (together)' if together else ''}: {shown}\n  not {theirs}")
    return wrong


def _groups(names: list[str], *, together: bool) -> list[list[str]]:
    """Batches: each record alone, or those of sinks and those of sources."""
    if not together:
        return [[name] for name in names]
    groups = [
        [name for name in names if ("offset" in RECORDS[name]) is sink] for sink in (True, False)
    ]
    return [group for group in groups if group]


@pytest.mark.parametrize("plugin", sorted(CLASSES))
def test_the_answers_are_those_of_kafka_connect(plugin: str) -> None:
    wrong = [
        f"{title(case)}\n  {text}"
        for at, case in enumerate(CASES)
        if case["plugin"] == plugin
        for text in differences(at)
    ]
    assert not wrong, "\n".join(wrong[:20])


def test_every_deviation_is_still_there() -> None:
    for at in range(len(CASES)):
        differences(at)
    assert {deviation.reason for deviation in DEVIATIONS} == NEEDED


def test_there_are_answers_for_every_plugin() -> None:
    assert {case["plugin"] for case in CASES} == CLASSES.keys() == DEFINITIONS.keys()


@pytest.mark.parametrize("plugin", sorted(CLASSES))
def test_every_setting_is_declared_as_kafka_connect_declares_it(plugin: str) -> None:
    ours = []
    for key in CLASSES[plugin].plugin.config.keys:
        info = config_key_info(key)
        ours.append(
            {
                **{name: info[name] for name in ("name", "type", "required", "importance")},
                "default": info["default_value"],
                "validator": None if key.check is None else str(key.check),
                **{name: info[name] for name in ("group", "width", "display_name")},
                "order": info["order_in_group"],
            }
        )
    assert ours == DEFINITIONS[plugin]


@pytest.mark.parametrize("plugin", sorted(CLASSES))
def test_every_setting_says_what_it_is(plugin: str) -> None:
    keys = CLASSES[plugin].plugin.config.keys
    assert [key.name for key in keys if not key.doc.endswith(".")] == []


def test_every_plugin_is_found_by_its_class_name() -> None:
    registry = Registry(BUILT_IN)
    for cls in BUILT_IN:
        find = registry.predicate if issubclass(cls, Predicate) else registry.transform
        assert find(cls.plugin.class_name) is cls
        assert cls.plugin.version == "4.3.1"
