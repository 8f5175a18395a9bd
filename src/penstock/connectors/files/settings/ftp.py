"""The settings of the source of FTP and SFTP servers, under the names of Stream Reactor's
connector, and of Eneco's, its origin, without `connect.` (connectors.md §10)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

from penstock.api.schema import INT64, struct
from penstock.api.schema import STRING as TEXT
from penstock.api.settings import (
    HIGH,
    LOW,
    REQUIRED,
    Check,
    Config,
    ConfigDef,
    Group,
    Key,
    Secret,
    checking,
    compile_java,
    invalid,
    valid_regex,
)
from penstock.connectors.files.monitor.changes import Mode, Shrunk
from penstock.connectors.files.monitor.patterns import PathPatternInvalid, pattern
from penstock.connectors.files.monitor.plan import Cleanup, MonitorPlan, Watch
from penstock.connectors.files.stores.ftp_client import FtpOptions, Tls
from penstock.connectors.files.stores.sftp import SftpOptions

T = TypeVar("T")

SHARE: Final = "penstock.task.share"
"""In the configuration of a task: `2/3`, the third of three."""

_PROTOCOLS: Final[Mapping[str, int]] = {"ftp": 21, "ftps": 21, "sftp": 22}
_IMPLICIT_PORT: Final = 990
_DURATION: Final = re.compile(
    r"(?P<sign>[-+])?P(?:(?P<days>[-+]?\d+)D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?"
    r"(?:(?P<seconds>[-+]?\d+)(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.IGNORECASE,
)
_UNITS_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}
_ADDRESS: Final = re.compile(r"(?P<host>[^:\s/]+|\[[0-9A-Fa-f:.]+\]):?(?P<port>\d*)")
_MONITOR: Final = re.compile(r"(?P<path>[^:]*):(?P<topic>.*)")


def duration_ms(text: str) -> int:
    """A duration as java.time.Duration reads it. Raises ValueError.

    >>> duration_ms("PT1M30.5S"), duration_ms("P1DT1H")
    (90500, 90000000)
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or match["time"] in ("T", "t") or not any(match.group(*_UNITS_MS)):
        raise ValueError("It is not an ISO 8601 duration of days and time, such as P14D or PT1M")
    total = sum(int(match[unit] or 0) * ms for unit, ms in _UNITS_MS.items())
    fraction = int((match["fraction"] or "").ljust(3, "0")[:3])
    total += -fraction if (match["seconds"] or "").startswith("-") else fraction
    return -total if match["sign"] == "-" else total


def _problem(read: Callable[[str], object]) -> Callable[[str | None], str | None]:
    """The function of a check: the error of `read`, if it raises one."""

    def problem(text: str | None) -> str | None:
        if text is None:
            return "It must not be null"
        try:
            read(text)
        except (ValueError, LookupError) as error:
            return str(error)
        return None

    return problem


def _is_duration(text: str) -> None:
    if duration_ms(text) < 0:
        raise ValueError("It is negative")


def _address(text: str) -> tuple[str, int | None]:
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        raise ValueError("It is not of the form host or host:port")
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port < 1 << 16:
        raise ValueError(f"{port} is not a valid port")
    return match["host"].strip("[]"), port


def _watch(text: str, mode: Mode) -> Watch:
    match = _MONITOR.fullmatch(text)
    if match is None or not match["topic"]:
        raise ValueError(f"'{text}' is not of the form path:topic")
    try:
        return Watch(pattern(match["path"]), match["topic"], mode)
    except PathPatternInvalid as error:
        raise ValueError(f"'{match['path']}': {error}") from error


def _joined(parts: tuple[str, ...] | None) -> list[str]:
    """Joins entries of a list that were split at commas within `{a,b}`."""
    entries: list[str] = []
    for part in parts or ():
        if entries and entries[-1].count("{") > entries[-1].count("}"):
            entries[-1] += f",{part}"
        elif part:
            entries.append(part)
    return entries


def _monitors_problem(parts: tuple[str, ...] | None) -> str | None:
    problems = (_problem(lambda text: _watch(text, Mode.TAIL))(text) for text in _joined(parts))
    return next((problem for problem in problems if problem), None)


def _class_of(*names: str) -> Check:
    """A class of the connector, in any of its packages."""

    def problem(name: str | None) -> str | None:
        if name is not None and name.rpartition(".")[2] not in names:
            return (
                f"It is not one of {', '.join(names)}; Java classes are not supported, use a "
                "transform instead"
            )
        return None

    return checking(", ".join(names), problem)


def _zone(text: str) -> tzinfo | None:
    if not text:
        return None
    try:
        return ZoneInfo(text)
    except (ValueError, OSError, LookupError) as error:
        raise ValueError("It is not a time zone, such as Europe/Berlin") from error


def _encoding(text: str) -> str:
    try:
        "".encode(text)
    except LookupError:
        raise ValueError("It is not an encoding") from None
    return text


_DURATION_CHECK: Final = checking("an ISO 8601 duration", _problem(_is_duration))

# fmt: off
_OURS: Final = Group("Penstock", importance=LOW)
TLS_MODE: Final = _OURS.choice("penstock.ftp.tls.mode",
    Tls.EXPLICIT.value, tuple(mode.value for mode in Tls),
    "For ftps: explicit, TLS starts with a command (AUTH TLS); implicit, with the connection, on "
    "port 990 by default.")
TLS_VERIFY: Final = _OURS.flag("penstock.ftp.tls.verify", False,
    "For ftps: whether the server's certificate must be valid for its address. The connector that "
    "this one replaces did not require that.")
TLS_CA: Final = _OURS.text("penstock.ftp.tls.ca", "",
    "A PEM file with the trusted certificate authorities; by default those that the machine "
    "trusts.")
KNOWN_HOSTS: Final = _OURS.text("penstock.ftp.known.hosts", "",
    "For sftp: an OpenSSH known_hosts file with the server's key. Without one, any key is "
    "accepted, as by the connector that this one replaces.")
PRIVATE_KEY: Final = _OURS.secret("penstock.ftp.private.key", "",
    "For sftp: a private key to log in with, as text (PEM or OpenSSH format) or the path of its "
    "file.")
PASSPHRASE: Final = _OURS.secret("penstock.ftp.private.key.passphrase", "",
    "The passphrase of the private key.")
ENCODING: Final = _OURS.text("penstock.ftp.encoding", "UTF-8",
    "For ftp and ftps: the encoding of names. A name that is not in it is read as ISO-8859-1.",
    check=checking("an encoding", _problem(_encoding)))
TIMEZONE: Final = _OURS.text("penstock.ftp.timezone", "",
    "For ftp and ftps: the time zone of listings, for servers without MLSD. By default that of "
    "the machine that runs the task.", check=checking("a time zone", _problem(_zone)))
SHRUNK: Final = _OURS.choice("penstock.ftp.tail.shrunk",
    Shrunk.WHOLE.value, tuple(choice.value for choice in Shrunk),
    "What to send of a tailed file that shrank, or changed without growing: whole, all of it; "
    "skip, nothing, like the connector that this one replaces.")
AFTER: Final = _OURS.choice("penstock.ftp.after",
    Cleanup.NOTHING.value, tuple(choice.value for choice in Cleanup),
    "How to handle a file of `monitor.update` once all of it is in Kafka: nothing, delete, or "
    "move to penstock.ftp.after.folder.")
AFTER_FOLDER: Final = _OURS.text("penstock.ftp.after.folder", "",
    "The folder that files are moved to, with their path below the folder that all paths of "
    "monitor.update share; folders are created if missing.")
# fmt: on


@dataclass(frozen=True, slots=True)
class FtpKeys:
    """The settings of one of the connectors."""

    address: Key[str]
    user: Key[str]
    password: Key[Secret]
    refresh: Key[str]
    max_backoff: Key[str]
    max_age: Key[str]
    tail: Key[tuple[str, ...]]
    update: Key[tuple[str, ...]]
    slice_size: Key[int]
    key_style: Key[str]
    file_converter: Key[str]
    record_converter: Key[str]
    max_records: Key[int]
    protocol: Key[str]
    name_filter: Key[str]
    timeout: Key[int]
    key_name: str | None
    """The name of the schema of keys with name and offset."""

    @property
    def definition(self) -> ConfigDef:
        keys = (getattr(self, name) for name in self.__slots__ if name != "key_name")
        return ConfigDef(*keys, *_OURS, rules=(self._rule,))

    def _rule(self, parsed: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        if parsed.get(AFTER.name) == Cleanup.MOVE.value and not parsed.get(AFTER_FOLDER.name):
            yield AFTER_FOLDER.name, invalid(AFTER_FOLDER.name, "", "It is required for move")
        key, protocol = parsed.get(PRIVATE_KEY.name), str(parsed.get(self.protocol.name))
        if isinstance(key, Secret) and key.value and protocol.lower() != "sftp":
            yield PRIVATE_KEY.name, f"A private key is for {self.protocol.name}=sftp."


def ftp_keys(prefix: str, package: str, key_name: str | None) -> FtpKeys:
    """The settings with names that begin with `prefix`."""
    # fmt: off
    keys = Group(importance=HIGH)
    return FtpKeys(
        address=keys.text(f"{prefix}address", REQUIRED,
            "The server: host or host:port. The port is 21 by default, 22 with sftp.",
            check=checking("host[:port]", _problem(_address))),
        user=keys.text(f"{prefix}user", REQUIRED,
            "The user's name."),
        password=keys.secret(f"{prefix}password", REQUIRED,
            "The user's password."),
        refresh=keys.text(f"{prefix}refresh", REQUIRED,
            "How often the server is polled for changes: an ISO 8601 duration, such as PT1M.",
            check=_DURATION_CHECK),
        max_backoff=keys.text(f"{prefix}max.backoff", "PT30M",
            "The maximum delay between retries while the server does not answer; the delay "
            "doubles each time. An ISO 8601 duration.", check=_DURATION_CHECK),
        max_age=keys.text(f"{prefix}file.maxage", REQUIRED,
            "Files that were modified longer ago are ignored: an ISO 8601 duration, such as P14D.",
            check=_DURATION_CHECK),
        tail=keys.listing(f"{prefix}monitor.tail", (),
            "Files to tail, sending what is appended: a list of path:topic. A path that ends "
            "with / means all files of a folder; names may contain *, ?, [abc] and {a,b}.",
            check=checking("path:topic, …", _monitors_problem)),
        update=keys.listing(f"{prefix}monitor.update", (),
            "Files that are sent as a whole whenever they change: a list of path:topic.",
            check=checking("path:topic, …", _monitors_problem)),
        slice_size=keys.number(f"{prefix}monitor.slicesize", -1,
            "The size of slices, in bytes. Each slice of a file is a record, and files need "
            "not fit into memory; -1 or 0: a file, or what was appended to it, is one record.",
            at_least=-1),
        key_style=keys.choice(f"{prefix}keystyle", REQUIRED, ("string", "struct"),
            "The type of keys: string, the path; struct, the path and an offset."),
        file_converter=keys.class_name(f"{prefix}fileconverter", f"{package}.SimpleFileConverter",
            "SimpleFileConverter: slices have the size that is set. MaxLinesFileConverter: "
            "they end with a line.",
            check=_class_of("SimpleFileConverter", "MaxLinesFileConverter")),
        record_converter=keys.class_name(f"{prefix}sourcerecordconverter",
            f"{package}.NopSourceRecordConverter",
            "Only NopSourceRecordConverter, which changes nothing. Use a transform instead of "
            "others.", check=_class_of("NopSourceRecordConverter")),
        max_records=keys.number(f"{prefix}max.poll.records", 10_000,
            "The maximum number of records of a poll.", at_least=1, importance=LOW),
        protocol=keys.choice(f"{prefix}protocol", "ftp", tuple(_PROTOCOLS),
            "ftp, ftps or sftp.", ignore_case=True, importance=LOW),
        name_filter=keys.text(f"{prefix}filter", ".*",
            "A regular expression that file names, without their folders, must match; other "
            "files are ignored.", check=valid_regex(), importance=LOW),
        timeout=keys.number(f"{prefix}timeout", 30_000,
            "How long the server may take to answer, in ms.", at_least=1, importance=LOW),
        key_name=key_name,
    )
    # fmt: on


STREAM_REACTOR: Final = ftp_keys(
    "connect.ftp.", "io.lenses.streamreactor.connect.ftp.source", key_name=None
)
ENECO: Final = ftp_keys(
    "ftp.",
    "com.eneco.trading.kafka.connect.ftp.source",
    key_name="com.eneco.trading.kafka.connect.ftp.FileInfo",
)


def is_sftp(keys: FtpKeys, config: Config) -> bool:
    """Whether a configuration uses the protocol sftp."""
    return config[keys.protocol].lower() == "sftp"


def ftp_options(keys: FtpKeys, config: Config) -> FtpOptions:
    """Connection parameters for ftp and ftps, from a valid configuration."""
    host, port = _address(config[keys.address])
    tls = Tls(config[TLS_MODE]) if config[keys.protocol].lower() == "ftps" else None
    default = _IMPLICIT_PORT if tls is Tls.IMPLICIT else _PROTOCOLS["ftp"]
    return FtpOptions(
        host=host,
        port=port or default,
        user=config[keys.user],
        password=config[keys.password],
        timeout_s=config[keys.timeout] / 1000,
        tls=tls,
        verify=config[TLS_VERIFY],
        ca_file=config[TLS_CA] or None,
        encoding=config[ENCODING],
        zone=_zone(config[TIMEZONE]),
    )


def sftp_options(keys: FtpKeys, config: Config) -> SftpOptions:
    """Connection parameters for sftp, from a valid configuration. Raises OSError if the file of the
    private key cannot be read."""
    host, port = _address(config[keys.address])
    key = config[PRIVATE_KEY].value.strip()
    if key and not key.startswith("-----BEGIN"):
        key = Path(key).read_text()
    return SftpOptions(
        host=host,
        port=port or _PROTOCOLS["sftp"],
        user=config[keys.user],
        password=config[keys.password],
        timeout_s=config[keys.timeout] / 1000,
        known_hosts=config[KNOWN_HOSTS] or None,
        key=Secret(key) if key else None,
        passphrase=config[PASSPHRASE] if config[PASSPHRASE].value else None,
    )


def watches_of(keys: FtpKeys, config: Config) -> list[tuple[Key[tuple[str, ...]], Watch]]:
    """The watched files, each with the setting that names them."""
    modes = ((keys.tail, Mode.TAIL), (keys.update, Mode.UPDATE))
    return [(key, _watch(text, mode)) for key, mode in modes for text in _joined(config[key])]


def monitor_plan(keys: FtpKeys, config: Config) -> MonitorPlan:
    """The plan of a valid configuration of a connector or a task."""
    share, _, shares = config.props.get(SHARE, "0/1").partition("/")
    fields = {"name": TEXT, "offset": INT64}
    is_struct = config[keys.key_style] == "struct"
    return MonitorPlan(
        watches=tuple(watch for _, watch in watches_of(keys, config)),
        refresh_ms=duration_ms(config[keys.refresh]),
        max_backoff_ms=duration_ms(config[keys.max_backoff]),
        max_age_ms=duration_ms(config[keys.max_age]),
        name_filter=compile_java(config[keys.name_filter]),
        slice_bytes=max(0, config[keys.slice_size]),
        whole_lines=config[keys.file_converter].endswith("MaxLinesFileConverter"),
        key_schema=struct(fields, name=keys.key_name) if is_struct else None,
        max_records=config[keys.max_records],
        shrunk=Shrunk(config[SHRUNK]),
        after=Cleanup(config[AFTER]),
        after_folder=config[AFTER_FOLDER],
        share=int(share),
        shares=int(shares),
    )
