"""Plans of sources of local folders, from the settings of `folder_keys`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.api.schema import Schema
from penstock.api.settings import (
    Config,
    ConfigDef,
    compile_java,
    invalid,
)
from penstock.connectors.files.formats.csv_read import Dialect
from penstock.connectors.files.formats.opencsv import NullCells, Parser
from penstock.connectors.files.read.after import After, Policy
from penstock.connectors.files.read.ledger import Key, OffsetShape
from penstock.connectors.files.read.names import Named
from penstock.connectors.files.read.plan import Errors, SourcePlan
from penstock.connectors.files.read.rows import Dress, KeyOf, Time
from penstock.connectors.files.read.scan import Finding, SortKey
from penstock.connectors.files.settings.connect_schema import parsed_schema
from penstock.connectors.files.settings.folder_keys import (
    BYTES_SEPARATOR,
    CHARSET,
    CLEANUP,
    CSV_CHARSET,
    CSV_ESCAPE,
    CSV_HEADER,
    CSV_IGNORE_QUOTES,
    CSV_IGNORE_SPACE,
    CSV_KEEP_CR,
    CSV_NULLS,
    CSV_QUOTE,
    CSV_RFC_4180,
    CSV_SEPARATOR,
    CSV_SKIP,
    CSV_STRICT_QUOTES,
    DATE_FORMATS,
    DATE_ZONE,
    ERROR_PATH,
    FILE_HEADERS,
    FINISHED_PATH,
    FORMAT_CLASS,
    GENERATION,
    GENERATION_KEY_NAME,
    GENERATION_KEYS,
    GENERATION_VALUE_NAME,
    HALT,
    IGNORED,
    INFER_ROWS,
    INPUT_PATH,
    INPUT_PATTERN,
    KEEP_PATH,
    KEY_SCHEMA,
    MIN_AGE,
    POLL_WAIT,
    PROCESSING,
    RECURSIVE,
    SORT,
    TAIL,
    TIMESTAMP_FIELD,
    TIMESTAMP_MODE,
    TOPIC,
    VALUE_SCHEMA,
)
from penstock.connectors.files.settings.ignored import log_ignored
from penstock.connectors.files.settings.source import (
    CHANGED,
    COMPRESSION,
    FILE_KEYS,
    RECORD_MAX_BYTES,
    SOURCE_KEYS,
    file_ledger,
    reading_by,
)
from penstock.connectors.files.settings.tables import (
    FORMAT,
    READINGS,
    ReadOptions,
    entry,
)
from penstock.connectors.files.stores.reading import ListedFile

_SHARED: Final = (
    TOPIC,
    INPUT_PATH,
    INPUT_PATTERN,
    RECURSIVE,
    CLEANUP,
    FINISHED_PATH,
    ERROR_PATH,
    KEEP_PATH,
    HALT,
    MIN_AGE,
    PROCESSING,
    SORT,
    POLL_WAIT,
    TIMESTAMP_MODE,
)
_SCHEMAS: Final = (
    KEY_SCHEMA,
    VALUE_SCHEMA,
    GENERATION,
    GENERATION_KEYS,
    GENERATION_KEY_NAME,
    GENERATION_VALUE_NAME,
    TIMESTAMP_FIELD,
    DATE_FORMATS,
    DATE_ZONE,
)
_CSV_KEYS: Final = (CSV_SEPARATOR, CSV_QUOTE, CSV_HEADER, CSV_CHARSET, INFER_ROWS)
_OPENCSV_KEYS: Final = (
    CSV_SKIP,
    CSV_ESCAPE,
    CSV_STRICT_QUOTES,
    CSV_IGNORE_SPACE,
    CSV_IGNORE_QUOTES,
    CSV_KEEP_CR,
    CSV_NULLS,
    CSV_RFC_4180,
)
_OURS: Final = (*SOURCE_KEYS, *FILE_KEYS)
_FREE: Final = {
    INPUT_PATTERN.name: replace(INPUT_PATTERN, default="(?s).*"),
    CLEANUP.name: replace(CLEANUP, default="NONE"),
    ERROR_PATH.name: replace(ERROR_PATH, default=""),
}


def _folder_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Files are moved to another folder."""
    if str(parsed.get(CLEANUP.name)).startswith("MOVE") and not parsed.get(FINISHED_PATH.name):
        policy = parsed.get(CLEANUP.name)
        yield (
            FINISHED_PATH.name,
            invalid(FINISHED_PATH.name, "", f"{CLEANUP.name}={policy} needs it"),
        )
    source = _as_folder(str(parsed.get(INPUT_PATH.name) or ""))
    for key in (FINISHED_PATH, ERROR_PATH):
        folder = str(parsed.get(key.name) or "")
        if folder and _as_folder(folder) == source:
            yield key.name, invalid(key.name, folder, f"{INPUT_PATH.name} is the same folder")


def _field_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """FIELD needs the name of a field."""
    if parsed.get(TIMESTAMP_MODE.name) == "FIELD" and not parsed.get(TIMESTAMP_FIELD.name):
        text = f"{TIMESTAMP_MODE.name}=FIELD needs it"
        yield TIMESTAMP_FIELD.name, invalid(TIMESTAMP_FIELD.name, "", text)


def _schema_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """A schema is configured or generated."""
    if not parsed.get(GENERATION.name) and not parsed.get(VALUE_SCHEMA.name):
        text = f"Either it or {GENERATION.name}=true is needed"
        yield VALUE_SCHEMA.name, invalid(VALUE_SCHEMA.name, "", text)


def _tail_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Files that grow stay, and are in a format of lines or pieces."""
    if not parsed.get(TAIL.name):
        return
    if parsed.get(CLEANUP.name) != "NONE":
        text = f"Growing files are not cleaned up: {CLEANUP.name} must be NONE"
        yield TAIL.name, invalid(TAIL.name, True, text)
    format = entry(READINGS, FORMAT, str(parsed.get(FORMAT_CLASS.name) or ""))
    if format not in (None, "Json", "String", "Csv", "ByteArray"):
        text = f"{format}{FORMAT} does not support growing files"
        yield TAIL.name, invalid(TAIL.name, True, text)
    if format == "ByteArray" and not parsed.get(BYTES_SEPARATOR.name):
        text = f"Growing files of raw bytes need {BYTES_SEPARATOR.name}"
        yield TAIL.name, invalid(TAIL.name, True, text)


@dataclass(frozen=True, slots=True)
class FolderConnector:
    """One of the connectors to folders."""

    settings: ConfigDef
    format: str | None
    """None: that of `format.class`."""
    ours: bool = False
    needs_schema: bool = False
    as_text: bool = False
    """Whether JSON values are texts."""
    first: int = 1
    """The `file.offset` of the first record."""


KINDS: Final[Mapping[str, FolderConnector]] = {
    "Local": FolderConnector(
        ConfigDef(
            FORMAT_CLASS,
            *(_FREE.get(key.name, key) for key in _SHARED),
            TAIL,
            FILE_HEADERS,
            *_SCHEMAS,
            *_CSV_KEYS,
            CHARSET,
            BYTES_SEPARATOR,
            *_OURS,
            rules=(_folder_rule, _field_rule, _tail_rule),
        ),
        None,
        ours=True,
    ),
    "Csv": FolderConnector(
        ConfigDef(
            *_SHARED,
            *_SCHEMAS,
            *_CSV_KEYS,
            *_OPENCSV_KEYS,
            *_OURS,
            rules=(_folder_rule, _field_rule, _schema_rule),
        ),
        "Csv",
        needs_schema=True,
    ),
    "Json": FolderConnector(
        ConfigDef(
            *_SHARED,
            *_SCHEMAS,
            CHARSET,
            *_OURS,
            rules=(_folder_rule, _field_rule, _schema_rule),
        ),
        "Json",
        needs_schema=True,
        first=0,
    ),
    "SchemaLessJson": FolderConnector(
        ConfigDef(*_SHARED, CHARSET, *_OURS, rules=(_folder_rule,)), "Json", as_text=True, first=0
    ),
    "LineDelimited": FolderConnector(
        ConfigDef(*_SHARED, CHARSET, *_OURS, rules=(_folder_rule,)), "String"
    ),
    "BinaryFile": FolderConnector(
        ConfigDef(*_SHARED, *_OURS, rules=(_folder_rule,)), "ByteArray", first=0
    ),
    "Avro": FolderConnector(ConfigDef(*_SHARED, *_OURS, rules=(_folder_rule,)), "Avro", first=0),
}
"""The connectors, by the part of spooldir's names between SpoolDir and SourceConnector."""


def format_of(kind: FolderConnector, config: Config) -> str:
    """The format of files, in READINGS."""
    if kind.format is not None:
        return kind.format
    format = entry(READINGS, FORMAT, config[FORMAT_CLASS])
    assert format is not None, "validation has seen to it"
    return format


def folder_of(config: Config) -> str:
    """The folder that is read, with a trailing slash."""
    return _as_folder(config[INPUT_PATH])


def folder_plan(kind: FolderConnector, config: Config) -> SourcePlan:
    """The plan of a valid configuration."""
    log_ignored(config, IGNORED)
    folder = folder_of(config)
    recursive, tails = config[RECURSIVE], kind.ours and config[TAIL]
    policy = Policy[config[CLEANUP]]
    after = After(
        policy,
        _as_folder(config[FINISHED_PATH]),
        _as_folder(config[ERROR_PATH]) or None,
        relative_to=folder if recursive else "",
    )
    if not kind.ours:
        shape = OffsetShape("fileName", "offset", {}, Key.PATH if recursive else Key.NAME)
    elif tails:
        shape = OffsetShape("inode", "record", {}, Key.IDENTITY)
    else:
        shape = OffsetShape("path", "record", {})
    format = format_of(kind, config)
    pattern = compile_java(config[INPUT_PATTERN])
    return SourcePlan(
        finding=Finding(
            prefixes=(folder,),
            names=Named(config[TOPIC], pattern, hidden=not kind.ours),
            recursive=recursive,
            poll_ms=config[POLL_WAIT],
            min_age_ms=config[MIN_AGE],
            marker="" if kind.ours else config[PROCESSING],
            below=after.folders,
            again=config[CHANGED] == "read",
            tails=tails,
            removes=after.removes,
            order=_order(config[SORT]),
        ),
        reading=reading_by(format, _options(kind, config, format)),
        ledger=file_ledger(config, shape, folder, late_ms=config[MIN_AGE]),
        errors=Errors(f"{HALT.name}=false", skips_files=not config[HALT]),
        after=after,
        dress=_dress(kind, config, folder if recursive else ""),
    )


def _as_folder(path: str) -> str:
    return f"{path.rstrip('/')}/" if path else ""


def _options(kind: FolderConnector, config: Config, format: str) -> ReadOptions:
    options = ReadOptions(
        compression=config[COMPRESSION], record_max_bytes=config[RECORD_MAX_BYTES]
    )
    if format == "ByteArray":
        separator = config[BYTES_SEPARATOR] if kind.ours else None
        return replace(options, separator=separator.encode() if separator else None)
    if format == "String":
        return replace(options, encoding=config[CHARSET])
    if format == "Json":
        options = replace(
            options,
            encoding=config[CHARSET],
            json_documents=not kind.ours,
        )
        return options if kind.as_text else replace(options, schema=_value_schema(config))
    if format == "Csv":
        options = replace(options, csv_dialect=_dialect(kind, config))
        if not kind.ours:
            options = replace(options, csv_skip=config[CSV_SKIP], csv_plain_names=True)
        return replace(
            options,
            encoding=config[CSV_CHARSET],
            schema=_value_schema(config),
            csv_header=config[CSV_HEADER],
            csv_infer_rows=config[INFER_ROWS],
        )
    return options


def _dialect(kind: FolderConnector, config: Config) -> Dialect:
    """The rules of CSV: RFC 4180 for our own source, opencsv's for spooldir's unless it is set to
    the former."""
    separator, quote = chr(config[CSV_SEPARATOR]), _char(config[CSV_QUOTE])
    if kind.ours:
        return Dialect(separator, quote)
    nulls = NullCells[config[CSV_NULLS]]
    parser = Parser(
        separator,
        quote,
        _char(config[CSV_ESCAPE]),
        strict_quotes=config[CSV_STRICT_QUOTES],
        ignores_white_space=config[CSV_IGNORE_SPACE],
        ignores_quotes=config[CSV_IGNORE_QUOTES],
        keeps_cr=config[CSV_KEEP_CR],
        nulls=nulls,
    )
    return Dialect(
        separator,
        quote,
        nulls=nulls,
        keeps_cr=config[CSV_KEEP_CR],
        joins_lines=True,
        opencsv=None if config[CSV_RFC_4180] else parser,
    )


def _char(code: int) -> str | None:
    return chr(code) if code else None


def _value_schema(config: Config) -> Schema | None:
    text = config[VALUE_SCHEMA]
    return parsed_schema(text) if text and not config[GENERATION] else None


def _dress(kind: FolderConnector, config: Config, root: str) -> Dress:
    mode = Time(config[TIMESTAMP_MODE])
    has_schemas = kind.ours or kind.needs_schema
    field = config[TIMESTAMP_FIELD] if has_schemas else ""
    return Dress(
        key=_key(kind, config) if has_schemas else None,
        about_file=not kind.ours or config[FILE_HEADERS],
        first=kind.first,
        root=root,
        time=mode,
        time_field=field,
        as_text=kind.as_text,
        value_name=config[GENERATION_VALUE_NAME]
        if kind.needs_schema and config[GENERATION]
        else None,
    )


def _key(kind: FolderConnector, config: Config) -> KeyOf | None:
    if config[GENERATION] or not config[KEY_SCHEMA]:
        fields = tuple(config[GENERATION_KEYS])
        if not fields and not (kind.needs_schema and config[GENERATION]):
            return None
        return KeyOf(fields=fields, name=config[GENERATION_KEY_NAME])
    schema = parsed_schema(config[KEY_SCHEMA])
    return KeyOf(fields=tuple(schema.field_names), name=schema.name, schema=schema)


def _order(attributes: Sequence[str]) -> SortKey | None:
    if tuple(attributes[:1]) in ((), ("NameAsc",)):
        return None
    return lambda file: tuple(_rank(attribute, file) for attribute in (*attributes, "NameAsc"))


def _rank(attribute: str, file: ListedFile) -> object:
    match attribute:
        case "NameDesc":
            return (*(-ord(char) for char in file.path), 1)
        case "LengthAsc":
            return file.size
        case "LengthDesc":
            return -file.size
        case "LastModifiedAsc":
            return file.modified_ms
        case "LastModifiedDesc":
            return -file.modified_ms
    return file.path
