"""The settings that all sources of files have, besides those of the connectors they replace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.api.settings import (
    BOOLEAN,
    INT,
    LONG,
    LOW,
    STRING,
    Config,
    Key,
    at_least,
    one_of,
)
from penstock.connectors.files.formats.decoder import RECORD_MAX, Reading
from penstock.connectors.files.formats.lines_read import MOST
from penstock.connectors.files.read.ledger import FileLedger, Ledger, Shape
from penstock.connectors.files.read.plan import TASK, TASKS
from penstock.connectors.files.settings.tables import AUTO, ReadOptions, reading_of

_READING: Final = "Reading"

RECORD_MAX_BYTES: Final = Key(
    RECORD_MAX,
    INT,
    default=MOST,
    importance=LOW,
    check=at_least(1),
    doc="The maximum size of a record in the file, in bytes.",
    group=_READING,
)
COMPRESSION: Final = Key(
    "penstock.compression.type",
    STRING,
    default=AUTO,
    importance=LOW,
    check=one_of(AUTO, "none", "gzip", "bzip2", "zstd", "snappy"),
    doc="How files of JSON, CSV, text and raw bytes are compressed; auto: by the extension of the "
    "name.",
    group=_READING,
)
CHANGED: Final = Key(
    "penstock.changed.files",
    STRING,
    default="read",
    importance=LOW,
    check=one_of("read", "ignore"),
    doc="Whether a file that is rewritten is read again, from its beginning. With ignore, a file "
    "that was read is skipped, and one that changes while it is read is an error.",
    group=_READING,
)
REMEMBERED: Final = Key(
    "penstock.remembered.files",
    INT,
    default=50_000,
    importance=LOW,
    check=at_least(0),
    doc="How many offsets of files are kept for each task, if files stay. Beyond that, offsets of "
    "files that arrived more than penstock.late.files.ms before they were listed are replaced by "
    "a mark: any older file counts as read.",
    group=_READING,
)
LATE: Final = Key(
    "penstock.late.files.ms",
    LONG,
    default=3_600_000,
    importance=LOW,
    check=at_least(0),
    doc="How much older than a listing a file may be that is missing from it, because clocks "
    "differ or an upload takes long.",
    group=_READING,
)
TASK_INDEX: Final = Key(
    TASK, INT, default=0, importance=LOW, doc="The number of a task. Do not set it."
)
TASK_COUNT: Final = Key(
    TASKS, INT, default=1, importance=LOW, doc="The number of tasks. Do not set it."
)
SOURCE_KEYS: Final = (RECORD_MAX_BYTES, COMPRESSION, TASK_INDEX, TASK_COUNT)
FILE_KEYS: Final = (CHANGED, REMEMBERED, LATE)
"""The keys of sources that remember each file."""

STORE_KEYS: Final = Key(
    "store.kafka.keys",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether keys are read from the files of keys beside those of values.",
)
STORE_HEADERS: Final = Key(
    "store.kafka.headers",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether headers are read from the files of headers beside those of values.",
)


def task_props(config: Config, max_tasks: int) -> list[Mapping[str, str]]:
    """The configurations of tasks that share files."""
    return [
        {**config.props, TASK_INDEX.name: str(index), TASK_COUNT.name: str(max_tasks)}
        for index in range(max_tasks)
    ]


def reading_by(format: str, options: ReadOptions) -> Callable[[str], Reading]:
    """Returns the reading of a file by its name."""
    return lambda path: reading_of(format, options, path)


def file_ledger(
    config: Config, shape: Shape, place: str, *, late_ms: int = 0
) -> Callable[..., Ledger]:
    """Makes a ledger that remembers each file. `late_ms`: minimum for late files."""
    limit, late_limit_ms = config[REMEMBERED], max(config[LATE], late_ms)
    return lambda stored, task, tasks: FileLedger(
        stored, shape, place, task, tasks, limit=limit, late_ms=late_limit_ms
    )
