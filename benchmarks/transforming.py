"""Every built-in transform, and ten chains of them, from a topic of JSON to a file.

All cases run one after the other on one worker, twice each; the second run counts. Both runtimes
have to write the same lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import inputs
from benchmarks.inputs import JSON, PARTITIONS, SCHEMAS, Kind, WrongOutcome
from benchmarks.runtimes import Session
from benchmarks.scenarios import (
    JSON_WITH_SCHEMAS,
    PLAIN_JSON,
    Load,
    Note,
    Scenario,
    sink_config,
)
from benchmarks.watching import watch

_PACKAGE: Final = "org.apache.kafka.connect.transforms"
_READ: Final = 1 << 22  # bytes
_RUNS: Final = 2

Step = tuple[str, Mapping[str, str]]
"""A transform's class without its package, and its settings."""


@dataclass(frozen=True, slots=True)
class Case:
    """A chain of transforms, and the predicates that they name."""

    name: str
    steps: tuple[Step, ...]
    predicates: Mapping[str, Step]
    with_schemas_only: bool = False

    def settings(self) -> dict[str, str]:
        """The connector's settings."""
        aliases = [f"t{number}" for number in range(len(self.steps))]
        out = {"transforms": ",".join(aliases)}
        for alias, (cls, given) in zip(aliases, self.steps, strict=True):
            out[f"transforms.{alias}.type"] = f"{_PACKAGE}.{cls}"
            out |= {f"transforms.{alias}.{name}": value for name, value in given.items()}
        if self.predicates:
            out["predicates"] = ",".join(self.predicates)
        for name, (cls, given) in self.predicates.items():
            out[f"predicates.{name}.type"] = f"{_PACKAGE}.predicates.{cls}"
            out |= {f"predicates.{name}.{key}": value for key, value in given.items()}
        return out


def _case(
    name: str,
    *steps: Step,
    predicates: Mapping[str, Step] | None = None,
    with_schemas_only: bool = False,
) -> Case:
    return Case(name, steps, predicates or {}, with_schemas_only)


_INSERT: Final[Step] = (
    "InsertField$Value",
    {"static.field": "origin", "static.value": "bench"},
)
_PLACE: Final[Step] = (
    "InsertField$Value",
    {"topic.field": "t", "partition.field": "p", "offset.field": "o"},
)
_RENAME: Final[Step] = ("ReplaceField$Value", {"renames": "name:label,score:points"})
_EXCLUDE: Final[Step] = ("ReplaceField$Value", {"exclude": "active"})
_CAST: Final[Step] = ("Cast$Value", {"spec": "id:string"})
_MASK: Final[Step] = ("MaskField$Value", {"fields": "city"})
_HOIST: Final[Step] = ("HoistField$Value", {"field": "row"})
_FLATTEN: Final[Step] = ("Flatten$Value", {"delimiter": "_"})
_KEY: Final[Step] = ("ValueToKey", {"fields": "id"})
_KEY_FIELD: Final[Step] = ("ExtractField$Key", {"field": "id"})
_HEADER: Final[Step] = ("InsertHeader", {"header": "origin", "value.literal": "bench"})
_HEADER_FROM: Final[Step] = (
    "HeaderFrom$Value",
    {"fields": "city", "headers": "town", "operation": "copy"},
)
_DROP_HEADER: Final[Step] = ("DropHeaders", {"headers": "town"})
_MOMENT: Final[Step] = (
    "TimestampConverter$Value",
    {"field": "id", "target.type": "string", "format": "yyyy-MM-dd HH:mm:ss.SSS"},
)
_ROUTE: Final[Step] = ("RegexRouter", {"regex": "bench-(.*)", "replacement": "$1"})
_ROUTE_BY_TIME: Final[Step] = ("TimestampRouter", {"topic.format": "${topic}-${timestamp}"})
_NO_TOMBSTONE: Final[Step] = ("Filter", {"predicate": "tombstone"})
_TOMBSTONE: Final[Mapping[str, Step]] = {"tombstone": ("RecordIsTombstone", {})}

CASES: Final = (
    _case("Cast", _CAST),
    _case("DropHeaders", _DROP_HEADER),
    _case("ExtractField", ("ExtractField$Value", {"field": "name"})),
    _case("Filter", _NO_TOMBSTONE, predicates=_TOMBSTONE),
    _case("Flatten", _FLATTEN),
    _case("HeaderFrom", _HEADER_FROM),
    _case("HoistField", _HOIST),
    _case("InsertField static", _INSERT),
    _case("InsertField place", _PLACE),
    _case("InsertHeader", _HEADER),
    _case("MaskField", _MASK),
    _case("RegexRouter", _ROUTE),
    _case("ReplaceField exclude", _EXCLUDE),
    _case("ReplaceField renames", _RENAME),
    _case(
        "SetSchemaMetadata",
        ("SetSchemaMetadata$Value", {"schema.name": "shop.Order", "schema.version": "2"}),
        with_schemas_only=True,
    ),
    _case("TimestampConverter", _MOMENT),
    _case("TimestampRouter", _ROUTE_BY_TIME),
    _case("ValueToKey", _KEY),
    _case("Insert, Replace, Mask", _INSERT, _EXCLUDE, _MASK),
    _case("Insert, rename, Cast", _INSERT, _RENAME, _CAST),
    _case("ValueToKey, ExtractField", _KEY, _KEY_FIELD),
    _case("Insert place, Cast", _PLACE, _CAST),
    _case(
        "Hoist, Flatten, rename", _HOIST, _FLATTEN, ("ReplaceField$Value", {"renames": "row_id:id"})
    ),
    _case("Replace, TimestampConverter", _EXCLUDE, _MOMENT),
    _case("RegexRouter, Insert", _ROUTE, _INSERT),
    _case("Filter, Insert, Mask", _NO_TOMBSTONE, _INSERT, _MASK, predicates=_TOMBSTONE),
    _case("HeaderFrom, DropHeaders, Mask", _HEADER_FROM, _DROP_HEADER, _MASK),
    _case("ValueToKey, Insert, Replace, Cast", _KEY, _INSERT, _EXCLUDE, _CAST),
)


def lines_written(file: Path) -> Callable[[], int]:
    """Counts the lines of a growing file; reads each byte once."""
    lines = position = 0

    def count() -> int:
        nonlocal lines, position
        if not file.exists():
            return 0
        with file.open("rb") as opened:
            opened.seek(position)
            while block := opened.read(_READ):
                lines, position = lines + block.count(b"\n"), position + len(block)
        return lines

    return count


def digest(file: Path) -> int:
    """The sum of the lines' hashes, which does not depend on their order."""
    return sum(hash(line) for block in inputs.lines_of(file) for line in block)


def transforming(kind: Kind, converter: Mapping[str, str], *, schemas: bool) -> Scenario:
    """The scenario of all cases over records of one kind."""
    outcomes: dict[str, tuple[str, int]] = {}

    def measure(session: Session, load: Load, note: Note) -> None:
        topic = load.topic(kind)
        for case in CASES:
            if case.with_schemas_only and not schemas:
                continue
            for _ in range(_RUNS):
                name = session.name("transform")
                file = session.folder / f"{name}.txt"
                config = {**sink_config(topic, file, PARTITIONS), **converter, **case.settings()}
                with session.running({name: config}) as began:
                    curve = watch(
                        lines_written(file), load.records, began, load.timeout_s, session.check
                    )
                rate, found = curve.rate, digest(file)
                other, expected = outcomes.setdefault(case.name, (session.runtime, found))
                if found != expected:
                    raise WrongOutcome(
                        f"{case.name}: {session.runtime} and {other} wrote other lines"
                    )
                file.unlink()
            note(case.name, rate)

    name = "transforms-schemas" if schemas else "transforms"
    return Scenario(name, f"every transform, JSON with{'' if schemas else 'out'} schemas", measure)


SCENARIOS: Final = (
    transforming(JSON, PLAIN_JSON, schemas=False),
    transforming(SCHEMAS, JSON_WITH_SCHEMAS, schemas=True),
)
