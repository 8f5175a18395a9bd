"""The plan of a source of files, as a value."""

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
"""Props that tell a task which files to read."""

ReadingOf = Callable[[str], Reading]
"""The format of a file, by its path."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Files with the same rows as another one: its keys, or its headers."""

    what: str
    stem: Callable[[str], str]
    """The common prefix of both paths."""
    reading: ReadingOf


@dataclass(frozen=True, slots=True)
class Errors:
    """What happens if a file, or one of its records, cannot be read."""

    setting: str
    """The setting to change, for messages."""
    skips_files: bool = False
    skips_records: bool = False


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What a source reads, and how."""

    finding: Finding
    reading: ReadingOf
    ledger: Callable[[Offsets, int, int], Ledger]
    """Creates the ledger from the stored offsets, the task number and the number of tasks."""
    errors: Errors
    after: After = field(default_factory=After)
    dress: Dress = field(default_factory=Dress)
    keys: Beside | None = None
    headers: Beside | None = None
    split_bytes: int = 0
    """Larger files are read in parallel ranges of this size; 0: they are not. Only if no files are
    read beside them and records get no numbers."""
