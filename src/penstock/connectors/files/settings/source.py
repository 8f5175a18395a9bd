"""The settings that all sources of files have, besides those of the connectors they replace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.api.settings import (
    LOW,
    Config,
    Group,
    flag,
    number,
)
from penstock.connectors.files.formats.decoder import RECORD_MAX, Reading
from penstock.connectors.files.formats.lines_read import MOST
from penstock.connectors.files.read.ledger import FileLedger, Ledger, OffsetShape
from penstock.connectors.files.read.plan import TASK, TASKS
from penstock.connectors.files.settings.tables import AUTO, ReadOptions, reading_of

# fmt: off
_READING: Final = Group("Reading", importance=LOW, numbered=False)
RECORD_MAX_BYTES: Final = _READING.number(RECORD_MAX, MOST,
    "The maximum size of a record in the file, in bytes.", at_least=1)
COMPRESSION: Final = _READING.choice("penstock.compression.type",
    AUTO, (AUTO, "none", "gzip", "bzip2", "zstd", "snappy"),
    "How files of JSON, CSV, text and raw bytes are compressed; auto: by the extension of the "
    "name.")
CHANGED: Final = _READING.choice("penstock.changed.files", "read", ("read", "ignore"),
    "Whether a file that is rewritten is read again, from its beginning. With ignore, a file that "
    "was read is skipped, and one that changes while it is read is an error.")
REMEMBERED: Final = _READING.number("penstock.remembered.files", 50_000,
    "How many offsets of files are kept for each task, if files stay. Beyond that, offsets of "
    "files that arrived more than penstock.late.files.ms before they were listed are replaced by "
    "a mark: any older file counts as read.", at_least=0)
LATE: Final = _READING.long("penstock.late.files.ms", 3_600_000,
    "How much older than a listing a file may be that is missing from it, because clocks differ "
    "or an upload takes long.", at_least=0)
TASK_INDEX: Final = number(TASK, 0,
    "The number of a task. Do not set it.", importance=LOW)
TASK_COUNT: Final = number(TASKS, 1,
    "The number of tasks. Do not set it.", importance=LOW)
SOURCE_KEYS: Final = (RECORD_MAX_BYTES, COMPRESSION, TASK_INDEX, TASK_COUNT)
FILE_KEYS: Final = (CHANGED, REMEMBERED, LATE)
"""The keys of sources that remember each file."""
STORE_KEYS: Final = flag("store.kafka.keys", False,
    "Whether keys are read from the files of keys beside those of values.", importance=LOW)
STORE_HEADERS: Final = flag("store.kafka.headers", False,
    "Whether headers are read from the files of headers beside those of values.", importance=LOW)
# fmt: on


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
    config: Config, shape: OffsetShape, place: str, *, late_ms: int = 0
) -> Callable[..., Ledger]:
    """Makes a ledger that remembers each file. `late_ms`: minimum for late files."""
    limit, late_limit_ms = config[REMEMBERED], max(config[LATE], late_ms)
    return lambda stored, task, tasks: FileLedger(
        stored, shape, place, task, tasks, limit=limit, late_ms=late_limit_ms
    )
