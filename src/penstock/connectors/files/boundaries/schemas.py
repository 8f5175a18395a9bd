"""Whether a record's schema fits the open file (connectors.md §13, `schema.compatibility`)."""

from __future__ import annotations

from enum import Enum

from penstock.api.schema import Schema


class Compatibility(Enum):
    """The schemas of records that a file may hold besides its own."""

    NONE = "NONE"  # no other
    BACKWARD = "BACKWARD"  # older versions, which are projected to the version of the file
    FORWARD = "FORWARD"  # newer versions
    FULL = "FULL"  # same as BACKWARD


class Fit(Enum):
    """What an open file does with a record."""

    WRITE = "write"  # it is written, projected if its schema is another version
    CUT = "cut"  # it begins a new file
    REFUSE = "refuse"  # without versions, its schema cannot be compared


def fit(compatibility: Compatibility, file: Schema | None, record: Schema | None) -> Fit:
    """Whether a record of one schema fits into a file of the other."""
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
    """The reason for REFUSE."""
    name = f"schema.compatibility={compatibility.value}"
    if file is None or record is None:
        return f"Records with and without a schema are mixed, which {name} does not allow"
    return f"{name} needs schemas with versions; the record's or its file's has none"
