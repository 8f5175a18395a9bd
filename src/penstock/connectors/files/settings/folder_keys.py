"""The settings of sources of local folders, under the names of the spooldir connectors
(connectors.md §13)."""

from __future__ import annotations

import codecs
import re
from typing import Final

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    Key,
    all_of,
    at_least,
    between,
    checking,
    entries,
    non_empty,
    one_of,
    valid_regex,
)
from penstock.connectors.files.formats.opencsv import Nulls
from penstock.connectors.files.read.after import Policy
from penstock.connectors.files.read.rows import Time
from penstock.connectors.files.settings.connect_schema import schema_problem
from penstock.connectors.files.settings.tables import FORMAT, READINGS, known

_FILES: Final = "File System"
_GENERAL: Final = "General"
_SCHEMA: Final = "Schema"
_CSV: Final = "CSV"
_TIMES: Final = "Timestamps"


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

TOPIC: Final = Key(
    "topic",
    STRING,
    importance=HIGH,
    check=non_empty(),
    doc="The topic that records are sent to.",
    group=_GENERAL,
)
FORMAT_CLASS: Final = Key(
    "format.class",
    STRING,
    importance=HIGH,
    check=known(READINGS, FORMAT),
    doc="The format of files: " + ", ".join(f"{name}{FORMAT}" for name in READINGS) + ".",
    group=_GENERAL,
)
INPUT_PATH: Final = Key(
    "input.path",
    STRING,
    importance=HIGH,
    check=all_of(non_empty(), _PATH),
    doc="The folder that files are read from, on the machines that run tasks.",
    group=_FILES,
)
INPUT_PATTERN: Final = Key(
    "input.file.pattern",
    STRING,
    importance=HIGH,
    check=valid_regex(),
    doc="The pattern that the whole name of a file, without its folder, must match.",
    group=_FILES,
)
RECURSIVE: Final = Key(
    "input.path.walk.recursively",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether files in its subfolders are also read.",
    group=_FILES,
)
CLEANUP: Final = Key(
    "cleanup.policy",
    STRING,
    default="MOVE",
    importance=MEDIUM,
    check=one_of(*(policy.name for policy in Policy)),
    doc="How to handle a file once its records are in Kafka and its offset is stored: NONE, keep "
    "it; DELETE it; MOVE it to finished.path; MOVEBYDATE, move it to a folder there for the day "
    "on which it was modified.",
    group=_FILES,
)
FINISHED_PATH: Final = Key(
    "finished.path",
    STRING,
    default="",
    importance=HIGH,
    check=_PATH,
    doc="Where to move files that were read.",
    group=_FILES,
)
ERROR_PATH: Final = Key(
    "error.path",
    STRING,
    importance=HIGH,
    check=_PATH,
    doc="Where to move files that cannot be read.",
    group=_FILES,
)
KEEP_PATH: Final = Key(
    "cleanup.policy.maintain.relative.path",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Ignored: moved files always keep their path below input.path, and folders stay.",
    group=_FILES,
)
HALT: Final = Key(
    "halt.on.error",
    BOOLEAN,
    default=True,
    importance=HIGH,
    doc="Whether the task fails after a file that cannot be read; otherwise it continues with the "
    "next.",
    group=_FILES,
)
MIN_AGE: Final = Key(
    "file.minimum.age.ms",
    LONG,
    default=0,
    importance=LOW,
    check=at_least(0),
    doc="How long a file must not have been modified before it is read.",
    group=_FILES,
)
PROCESSING: Final = Key(
    "processing.file.extension",
    STRING,
    default=".PROCESSING",
    importance=LOW,
    check=checking(
        "a string with a dot",
        lambda text: None if re.fullmatch(r".*\..+", text or "") else "It has no dot",
    ),
    doc="A file is skipped while a file with its name plus this suffix exists.",
    group=_FILES,
)
SORT: Final = Key(
    "files.sort.attributes",
    LIST,
    default=["NameAsc"],
    importance=LOW,
    check=entries(
        *("NameAsc", "NameDesc", "LengthAsc", "LengthDesc"),
        *("LastModifiedAsc", "LastModifiedDesc"),
    ),
    doc="The order in which files are read.",
    group=_FILES,
)
POLL_WAIT: Final = Key(
    "empty.poll.wait.ms",
    LONG,
    default=500,
    importance=LOW,
    check=at_least(1),
    doc="How long to wait before the folder is listed again.",
    group=_GENERAL,
)
TAIL: Final = Key(
    "penstock.tail",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether files grow: lines are read as they are appended, and a file never ends. Files "
    "may be renamed, if input.file.pattern matches the new name.",
    group=_FILES,
)
TIMESTAMP_MODE: Final = Key(
    "timestamp.mode",
    STRING,
    default="PROCESS_TIME",
    importance=MEDIUM,
    check=one_of(*(time.value for time in Time)),
    doc="The timestamps of records: FIELD, the value of timestamp.field; FILE_TIME, when the file "
    "was modified; PROCESS_TIME, when they are sent.",
    group=_TIMES,
)
TIMESTAMP_FIELD: Final = Key(
    "timestamp.field",
    STRING,
    default="",
    importance=MEDIUM,
    doc="The field of the value that contains the timestamp.",
    group=_TIMES,
)
FILE_HEADERS: Final = Key(
    "penstock.file.headers",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether records get headers about their file: file.name, file.path, file.offset and more.",
    group=_GENERAL,
)
KEY_SCHEMA: Final = Key(
    "key.schema",
    STRING,
    default="",
    importance=HIGH,
    check=checking("a schema as JSON", schema_problem),
    doc="The schema of keys: fields of the value.",
    group=_SCHEMA,
)
VALUE_SCHEMA: Final = Key(
    "value.schema",
    STRING,
    default="",
    importance=HIGH,
    check=checking("a schema as JSON", schema_problem),
    doc="The schema of values.",
    group=_SCHEMA,
)
GENERATION: Final = Key(
    "schema.generation.enabled",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether schemas are generated from files: all CSV fields are optional strings then, and "
    "JSON has no schema.",
    group=_SCHEMA,
)
GENERATION_KEYS: Final = Key(
    "schema.generation.key.fields",
    LIST,
    default=[],
    importance=MEDIUM,
    doc="The fields of the value that form the key, if schemas are generated.",
    group=_SCHEMA,
)
GENERATION_KEY_NAME: Final = Key(
    "schema.generation.key.name",
    STRING,
    default="com.github.jcustenborder.kafka.connect.model.Key",
    importance=MEDIUM,
    doc="The name of the generated schema of keys.",
    group=_SCHEMA,
)
GENERATION_VALUE_NAME: Final = Key(
    "schema.generation.value.name",
    STRING,
    default="com.github.jcustenborder.kafka.connect.model.Value",
    importance=MEDIUM,
    doc="The name of the generated schema of values.",
    group=_SCHEMA,
)
INFER_ROWS: Final = Key(
    "penstock.csv.infer.rows",
    INT,
    default=0,
    importance=LOW,
    check=at_least(0),
    doc="How many rows of a CSV file the types of its columns are inferred from, if there is no "
    "schema; 0: all are strings.",
    group=_CSV,
)
CSV_SEPARATOR: Final = Key(
    "csv.separator.char",
    INT,
    default=44,
    importance=LOW,
    check=between(1, 127),
    doc="The character between cells, as its code.",
    group=_CSV,
)
CSV_QUOTE: Final = Key(
    "csv.quote.char",
    INT,
    default=34,
    importance=LOW,
    check=between(0, 127),
    doc="The character around cells, as its code; 0 for none.",
    group=_CSV,
)
CSV_HEADER: Final = Key(
    "csv.first.row.as.header",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether the first row contains the column names.",
    group=_CSV,
)
CSV_CHARSET: Final = Key(
    "csv.file.charset",
    STRING,
    default="UTF-8",
    importance=LOW,
    check=_CHARSET,
    doc="The encoding of files.",
    group=_CSV,
)
CHARSET: Final = Key(
    "file.charset",
    STRING,
    default="UTF-8",
    importance=LOW,
    check=_CHARSET,
    doc="The encoding of files.",
    group=_GENERAL,
)
DATE_FORMATS: Final = Key(
    "parser.timestamp.date.formats",
    LIST,
    default=["yyyy-MM-dd'T'HH:mm:ss", "yyyy-MM-dd' 'HH:mm:ss"],
    importance=MEDIUM,
    check=checking(
        "patterns of ISO 8601",
        lambda patterns: next(
            (
                f"{pattern} is not a pattern of ISO 8601, the only supported format"
                for pattern in patterns or ()
                if not re.fullmatch(
                    r"yyyy-MM-dd(('T'|'? '?)HH:mm(:ss(\.S+)?)?('Z'|X{1,3}|Z)?)?", pattern
                )
            ),
            None,
        ),
    ),
    doc="The patterns of dates and times. Any ISO 8601 format is read.",
    group=_TIMES,
)
DATE_ZONE: Final = Key(
    "parser.timestamp.timezone",
    STRING,
    default="UTC",
    importance=LOW,
    check=one_of("UTC", "GMT", "Z"),
    doc="The time zone of times without one; only UTC.",
    group=_TIMES,
)
BYTES_SEPARATOR: Final = Key(
    "format.bytearray.separator",
    STRING,
    default=None,
    importance=LOW,
    doc="The separator that ends a record of raw bytes; without it, a file is one record.",
    group=_GENERAL,
)

CSV_SKIP: Final = Key(
    "csv.skip.lines",
    INT,
    default=0,
    importance=LOW,
    check=at_least(0),
    doc="How many lines at the beginning of a file are skipped, before the header.",
    group=_CSV,
)
CSV_ESCAPE: Final = Key(
    "csv.escape.char",
    INT,
    default=92,
    importance=LOW,
    check=between(0, 127),
    doc="The character that is left out, and before a quote or itself keeps that, as its code; 0 "
    "for none. Not used with csv.rfc.4180.parser.enabled.",
    group=_CSV,
)
CSV_STRICT_QUOTES: Final = Key(
    "csv.strict.quotes",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether characters outside of quotes are left out. Not used with "
    "csv.rfc.4180.parser.enabled.",
    group=_CSV,
)
CSV_IGNORE_SPACE: Final = Key(
    "csv.ignore.leading.whitespace",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether white space before a quote is left out. Not used with "
    "csv.rfc.4180.parser.enabled.",
    group=_CSV,
)
CSV_IGNORE_QUOTES: Final = Key(
    "csv.ignore.quotations",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether separators and line ends count even between quotes. Not used with "
    "csv.rfc.4180.parser.enabled.",
    group=_CSV,
)
CSV_KEEP_CR: Final = Key(
    "csv.keep.carriage.return",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether lines end only with a newline, so that a carriage return before it belongs to the "
    "last cell.",
    group=_CSV,
)
CSV_NULLS: Final = Key(
    "csv.null.field.indicator",
    STRING,
    default=Nulls.NEITHER.value,
    importance=LOW,
    check=one_of(*(nulls.value for nulls in Nulls)),
    doc="Which empty cells are null: those without quotes (EMPTY_SEPARATORS), those with quotes "
    "(EMPTY_QUOTES), BOTH, or NEITHER.",
    group=_CSV,
)
CSV_RFC_4180: Final = Key(
    "csv.rfc.4180.parser.enabled",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether CSV is read by RFC 4180, without an escape character, instead of by the rules of "
    "opencsv.",
    group=_CSV,
)

IGNORED: Final = (
    "batch.size",
    "file.buffer.size.bytes",
    "task.partitioner",
    "csv.verify.reader",
    "csv.case.sensitive.field.names",
)
"""Settings of spooldir without an effect on records: polls are bounded by bytes, and spooldir
itself does not use the last one."""
