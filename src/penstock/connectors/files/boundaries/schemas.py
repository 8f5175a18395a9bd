"""Whether a record's schema fits the open file (connectors.md §13, `schema.compatibility`)."""

from __future__ import annotations

from enum import Enum

from penstock.api.schema import Schema


class Compatibility(Enum):
    """Which schemas a file may hold records of, besides its own."""

    NONE = "NONE"  # no other
    BACKWARD = "BACKWARD"  # older versions, which are projected to the file's
    FORWARD = "FORWARD"  # newer ones
    FULL = "FULL"  # as BACKWARD


class Fit(Enum):
    """What becomes of a record that comes to an open file."""

    WRITE = "write"  # it is written, projected where its schema is another version
    CUT = "cut"  # it begins a file of its own
    REFUSE = "refuse"  # it is in no version, so it cannot be said


def fit(compatibility: Compatibility, file: Schema | None, record: Schema | None) -> Fit:
    """Whether a record of one schema goes into a file of the other."""
    if file is record or file == record:
        return Fit.WRITE
    if compatibility is Compatibility.NONE:
        return Fit.CUT
    if file is None or record is None or file.version is None or record.version is None:
        return Fit.REFUSE
    forward = compatibility is Compatibility.FORWARD
    newer = record.version < file.version if forward else record.version > file.version
    return Fit.CUT if newer else Fit.WRITE


def refusal(compatibility: Compatibility, file: Schema | None, record: Schema | None) -> str:
    """Why the answer was REFUSE."""
    name = f"schema.compatibility={compatibility.value}"
    if file is None or record is None:
        return f"Records with and without a schema are mixed, which {name} does not allow"
    return f"{name} needs schemas with versions; the record's or its file's has none"
