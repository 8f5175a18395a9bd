"""The settings of sources of local folders, under the names of the spooldir connectors
(connectors.md §13)."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from typing import Final

from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
    REQUIRED,
    Group,
    all_of,
    checking,
    entries,
    non_empty,
    valid_regex,
)
from penstock.connectors.files.formats.opencsv import NullCells
from penstock.connectors.files.read.after import Policy
from penstock.connectors.files.read.rows import Time
from penstock.connectors.files.settings.connect_schema import schema_problem
from penstock.connectors.files.settings.tables import FORMAT, READINGS, known


def _path_problem(path: str | None) -> str | None:
    return "The path must be absolute" if path and not path.startswith("/") else None


_PATH: Final = checking("an absolute path", _path_problem)


def _charset_problem(name: str | None) -> str | None:
    try:
        codecs.lookup(name or "")
    except LookupError:
        return "The encoding is unknown"
    return None


_CHARSET: Final = checking("the name of an encoding", _charset_problem)


def _extension_problem(text: str | None) -> str | None:
    return None if re.fullmatch(r".*\..+", text or "") else "It has no dot"


_ISO_8601: Final = re.compile(r"yyyy-MM-dd(('T'|'? '?)HH:mm(:ss(\.S+)?)?('Z'|X{1,3}|Z)?)?")


def _date_formats_problem(patterns: Sequence[str] | None) -> str | None:
    for pattern in patterns or ():
        if not _ISO_8601.fullmatch(pattern):
            return f"{pattern} is not a pattern of ISO 8601, the only supported format"
    return None


# fmt: off
_GENERAL: Final = Group("General", importance=LOW, numbered=False)
TOPIC: Final = _GENERAL.text("topic", REQUIRED,
    "The topic that records are sent to.", check=non_empty(), importance=HIGH)
FORMAT_CLASS: Final = _GENERAL.text("format.class", REQUIRED,
    "The format of files: " + ", ".join(f"{name}{FORMAT}" for name in READINGS) + ".",
    check=known(READINGS, FORMAT), importance=HIGH)
_FILES: Final = Group("File System", importance=LOW, numbered=False)
INPUT_PATH: Final = _FILES.text("input.path", REQUIRED,
    "The folder that files are read from, on the machines that run tasks.",
    check=all_of(non_empty(), _PATH), importance=HIGH)
INPUT_PATTERN: Final = _FILES.text("input.file.pattern", REQUIRED,
    "The pattern that the whole name of a file, without its folder, must match.",
    check=valid_regex(), importance=HIGH)
RECURSIVE: Final = _FILES.flag("input.path.walk.recursively", False,
    "Whether files in its subfolders are also read.")
CLEANUP: Final = _FILES.choice("cleanup.policy", "MOVE", tuple(policy.name for policy in Policy),
    "How to handle a file once its records are in Kafka and its offset is stored: NONE, keep it; "
    "DELETE it; MOVE it to finished.path; MOVEBYDATE, move it to a folder there for the day on "
    "which it was modified.", importance=MEDIUM)
FINISHED_PATH: Final = _FILES.text("finished.path", "",
    "Where to move files that were read.", check=_PATH, importance=HIGH)
ERROR_PATH: Final = _FILES.text("error.path", REQUIRED,
    "Where to move files that cannot be read.", check=_PATH, importance=HIGH)
KEEP_PATH: Final = _FILES.ignored("cleanup.policy.maintain.relative.path", False,
    "moved files always keep their path below input.path, and folders stay")
HALT: Final = _FILES.flag("halt.on.error", True,
    "Whether the task fails after a file that cannot be read; otherwise it continues with the "
    "next.", importance=HIGH)
MIN_AGE: Final = _FILES.long("file.minimum.age.ms", 0,
    "How long a file must not have been modified before it is read.", at_least=0)
PROCESSING: Final = _FILES.text("processing.file.extension", ".PROCESSING",
    "A file is skipped while a file with its name plus this suffix exists.",
    check=checking("a string with a dot", _extension_problem))
SORT: Final = _FILES.listing("files.sort.attributes", ("NameAsc",),
    "The order in which files are read.",
    check=entries("NameAsc", "NameDesc", "LengthAsc", "LengthDesc", "LastModifiedAsc",
        "LastModifiedDesc"))
POLL_WAIT: Final = _GENERAL.long("empty.poll.wait.ms", 500,
    "How long to wait before the folder is listed again.", at_least=1)
TAIL: Final = _FILES.flag("penstock.tail", False,
    "Whether files grow: lines are read as they are appended, and a file never ends. Files may be "
    "renamed, if input.file.pattern matches the new name.")
_TIMES: Final = Group("Timestamps", numbered=False)
TIMESTAMP_MODE: Final = _TIMES.choice("timestamp.mode",
    "PROCESS_TIME", tuple(time.value for time in Time),
    "The timestamps of records: FIELD, the value of timestamp.field; FILE_TIME, when the file was "
    "modified; PROCESS_TIME, when they are sent.")
TIMESTAMP_FIELD: Final = _TIMES.text("timestamp.field", "",
    "The field of the value that contains the timestamp.")
FILE_HEADERS: Final = _GENERAL.flag("penstock.file.headers", False,
    "Whether records get headers about their file: file.name, file.path, file.offset and more.")
_SCHEMA: Final = Group("Schema", numbered=False)
KEY_SCHEMA: Final = _SCHEMA.text("key.schema", "",
    "The schema of keys: fields of the value.", check=checking("a schema as JSON", schema_problem),
    importance=HIGH)
VALUE_SCHEMA: Final = _SCHEMA.text("value.schema", "",
    "The schema of values.", check=checking("a schema as JSON", schema_problem), importance=HIGH)
GENERATION: Final = _SCHEMA.flag("schema.generation.enabled", False,
    "Whether schemas are generated from files: all CSV fields are optional strings then, and JSON "
    "has no schema.")
GENERATION_KEYS: Final = _SCHEMA.listing("schema.generation.key.fields", (),
    "The fields of the value that form the key, if schemas are generated.")
GENERATION_KEY_NAME: Final = _SCHEMA.text("schema.generation.key.name",
    "com.github.jcustenborder.kafka.connect.model.Key",
    "The name of the generated schema of keys.")
GENERATION_VALUE_NAME: Final = _SCHEMA.text("schema.generation.value.name",
    "com.github.jcustenborder.kafka.connect.model.Value",
    "The name of the generated schema of values.")
_CSV: Final = Group("CSV", importance=LOW, numbered=False)
INFER_ROWS: Final = _CSV.number("penstock.csv.infer.rows", 0,
    "How many rows of a CSV file the types of its columns are inferred from, if there is no "
    "schema; 0: all are strings.", at_least=0)
CSV_SEPARATOR: Final = _CSV.number("csv.separator.char", 44,
    "The character between cells, as its code.", at_least=1, at_most=127)
CSV_QUOTE: Final = _CSV.number("csv.quote.char", 34,
    "The character around cells, as its code; 0 for none.", at_least=0, at_most=127)
CSV_HEADER: Final = _CSV.flag("csv.first.row.as.header", False,
    "Whether the first row contains the column names.", importance=MEDIUM)
CSV_CHARSET: Final = _CSV.text("csv.file.charset", "UTF-8",
    "The encoding of files.", check=_CHARSET)
CHARSET: Final = _GENERAL.text("file.charset", "UTF-8",
    "The encoding of files.", check=_CHARSET)
DATE_FORMATS: Final = _TIMES.listing("parser.timestamp.date.formats",
    ("yyyy-MM-dd'T'HH:mm:ss", "yyyy-MM-dd' 'HH:mm:ss"),
    "The patterns of dates and times. Any ISO 8601 format is read.",
    check=checking("patterns of ISO 8601", _date_formats_problem))
DATE_ZONE: Final = _TIMES.choice("parser.timestamp.timezone", "UTC", ("UTC", "GMT", "Z"),
    "The time zone of times without one; only UTC.", importance=LOW)
BYTES_SEPARATOR: Final = _GENERAL.text("format.bytearray.separator", None,
    "The separator that ends a record of raw bytes; without it, a file is one record.")
CSV_SKIP: Final = _CSV.number("csv.skip.lines", 0,
    "How many lines at the beginning of a file are skipped, before the header.", at_least=0)
CSV_ESCAPE: Final = _CSV.number("csv.escape.char", 92,
    "The character that is left out, and before a quote or itself keeps that, as its code; 0 for "
    "none. Not used with csv.rfc.4180.parser.enabled.", at_least=0, at_most=127)
CSV_STRICT_QUOTES: Final = _CSV.flag("csv.strict.quotes", False,
    "Whether characters outside of quotes are left out. Not used with csv.rfc.4180.parser.enabled.")
CSV_IGNORE_SPACE: Final = _CSV.flag("csv.ignore.leading.whitespace", True,
    "Whether white space before a quote is left out. Not used with csv.rfc.4180.parser.enabled.")
CSV_IGNORE_QUOTES: Final = _CSV.flag("csv.ignore.quotations", False,
    "Whether separators and line ends count even between quotes. Not used with "
    "csv.rfc.4180.parser.enabled.")
CSV_KEEP_CR: Final = _CSV.flag("csv.keep.carriage.return", False,
    "Whether lines end only with a newline, so that a carriage return before it belongs to the "
    "last cell.")
CSV_NULLS: Final = _CSV.choice("csv.null.field.indicator",
    NullCells.NEITHER.value, tuple(nulls.value for nulls in NullCells),
    "Which empty cells are null: those without quotes (EMPTY_SEPARATORS), those with quotes "
    "(EMPTY_QUOTES), BOTH, or NEITHER.")
CSV_RFC_4180: Final = _CSV.flag("csv.rfc.4180.parser.enabled", False,
    "Whether CSV is read by RFC 4180, without an escape character, instead of by the rules of "
    "opencsv.")
# fmt: on

IGNORED: Final = (
    "batch.size",
    "file.buffer.size.bytes",
    "task.partitioner",
    "csv.verify.reader",
    "csv.case.sensitive.field.names",
)
"""Settings of spooldir without an effect on records: polls are bounded by bytes, and spooldir
itself does not use the last one."""
