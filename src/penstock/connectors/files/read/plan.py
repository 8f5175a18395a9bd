"""What a source of files does, as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from penstock.api import Offsets
from penstock.connectors.files.formats.decoder import Reading
from penstock.connectors.files.read.after import After
from penstock.connectors.files.read.ledger import Ledger
from penstock.connectors.files.read.rows import Dress
from penstock.connectors.files.read.scan import Finding

TASK: Final = "task.index"
TASKS: Final = "task.count"
"""What tells a task which files are its own."""

ReadingOf = Callable[[str], Reading]
"""How a file is read, by its name."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Files with the same rows as another one: its keys, or its headers."""

    what: str
    stem: Callable[[str], str]
    """The part of a path that the names of both begin with."""
    reading: ReadingOf


@dataclass(frozen=True, slots=True)
class Errors:
    """What happens when a file, or a record of it, cannot be read."""

    setting: str
    """What to change, for messages."""
    skips_files: bool = False
    skips_records: bool = False


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What a source does."""

    finding: Finding
    reading: ReadingOf
    ledger: Callable[[Offsets, int, int], Ledger]
    """From the stored offsets, the task's number and how many there are."""
    errors: Errors
    after: After = field(default_factory=After)
    dress: Dress = field(default_factory=Dress)
    keys: Beside | None = None
    headers: Beside | None = None
    split_bytes: int = 0
    """Larger files are read in ranges of so many bytes, side by side; 0: they are not. Only where
    nothing is read beside them and records get no numbers."""
