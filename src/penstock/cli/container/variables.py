"""Variables of a container as a worker's settings. Pure.

`CONNECT_*` variables are settings, as in Confluent's images (cp-kafka-connect) and Debezium's; the
latter also have names without the prefix, and defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.cli.container.memory import java_heap_mb
from penstock.config.properties import parse_properties_text
from penstock.config.worker import from_environment
from penstock.errors import ConfigInvalid, StartupFailed
from penstock.host import logs

PREFIX: Final = "CONNECT_"
FILE_SUFFIX: Final = "_FILE"
HEAP: Final = "spark.driver.memory"
KAFKA_TIMEOUT: Final = "CONNECT_CUB_KAFKA_TIMEOUT"
"""Seconds to wait for Kafka, as Confluent's images call it."""

REQUIRED: Final = (
    "bootstrap.servers",
    "group.id",
    "config.storage.topic",
    "offset.storage.topic",
    "status.storage.topic",
    "key.converter",
    "value.converter",
    "rest.advertised.host.name",
)
"""The settings that Confluent's images require, in their order."""

REGISTRY_CONVERTERS: Final = ("io.confluent.connect.avro.AvroConverter",)

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"

DEBEZIUM: Final[Mapping[str, tuple[str, str | None]]] = {
    "BOOTSTRAP_SERVERS": ("bootstrap.servers", None),
    "GROUP_ID": ("group.id", "1"),
    "CONFIG_STORAGE_TOPIC": ("config.storage.topic", None),
    "OFFSET_STORAGE_TOPIC": ("offset.storage.topic", None),
    "STATUS_STORAGE_TOPIC": ("status.storage.topic", "connect-status"),
    "KEY_CONVERTER": ("key.converter", _JSON),
    "VALUE_CONVERTER": ("value.converter", _JSON),
    "OFFSET_FLUSH_INTERVAL_MS": ("offset.flush.interval.ms", "60000"),
    "OFFSET_FLUSH_TIMEOUT_MS": ("offset.flush.timeout.ms", "5000"),
    "SHUTDOWN_TIMEOUT": ("task.shutdown.graceful.timeout.ms", "10000"),
    "REST_HOST_NAME": ("rest.host.name", None),
    "REST_PORT": ("rest.port", "8083"),
    "ADVERTISED_HOST_NAME": ("rest.advertised.host.name", None),
    "ADVERTISED_PORT": ("rest.advertised.port", "8083"),
}
"""Debezium's variables: the setting that each stands for, and the image's default."""

_DEBEZIUM_SIGNS: Final = (
    "BOOTSTRAP_SERVERS",
    "CONFIG_STORAGE_TOPIC",
    "OFFSET_STORAGE_TOPIC",
    "STATUS_STORAGE_TOPIC",
)

# The variables that Kubernetes sets for a service named `connect`.
_SERVICE: Final = re.compile(r"CONNECT_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP).*)?)")
_LOG4J: Final = re.compile(r"CONNECT_(TOOLS_)?LOG4J2?_.*")
_LOGGER: Final = re.compile(r"CONNECT_LOG4J_LOGGER_(.+)")
_NO_SETTINGS: Final = re.compile(r"CONNECT_CUB_.*")
_KAFKA: Final[Mapping[str, str]] = {
    "KAFKA_JMX_": "metrics are at GET /metrics",
    "JMXPORT": "metrics are at GET /metrics",
    "KAFKA_OPTS": "set options of Spark's JVM in a worker file, with spark.driver.extraJavaOptions",
    "KAFKA_JVM_PERFORMANCE_OPTS": "Spark's JVM has its own options",
    "KAFKA_LOG4J_OPTS": "set levels with CONNECT_LOG4J_ROOT_LOGLEVEL and CONNECT_LOG4J_LOGGERS",
}


@dataclass(frozen=True, slots=True)
class Variables:
    """The content of the variables: the worker's settings, the log settings as variables, and notes
    about variables without effect."""

    settings: Mapping[str, str]
    log_environ: Mapping[str, str]
    notes: tuple[str, ...] = ()


def read(
    environ: Mapping[str, str],
    read_file: Callable[[str], str],
    address: Callable[[], str],
    given: Mapping[str, str] | None = None,
) -> Variables:
    """The settings in variables, over those `given` in a file.

    `read_file` reads the file of a secret; `address` returns the container's address, which
    Debezium's image advertises. Raises ConfigInvalid with everything that is missing or ambiguous.
    """
    notes: list[str] = []
    settings = {**(given or {}), **_debezium(environ, address)}
    mapped = {name: text for name, text in environ.items() if _is_setting(name)}
    plain = {name: text for name, text in mapped.items() if not name.endswith(FILE_SUFFIX)}
    lines = "\n".join(f"{name}={text}" for name, text in from_environment(plain).items())
    settings |= parse_properties_text(lines)
    settings |= _secrets(environ, mapped, read_file)
    _listen(settings)
    _heap(environ, settings, notes)
    _demand(settings)
    notes += _ignored(environ)
    return Variables(settings, _log_environ(environ, notes), tuple(notes))


def variable(setting: str) -> str:
    """The variable of a setting.

    >>> variable("rest.advertised.host.name"), variable("a_b-c")
    ('CONNECT_REST_ADVERTISED_HOST_NAME', 'CONNECT_A__B___C')
    """
    escaped = setting.replace("_", "__").replace("-", "___").replace(".", "_")
    return PREFIX + escaped.upper()


def _is_setting(name: str) -> bool:
    return name.startswith(PREFIX) and not (
        _SERVICE.fullmatch(name) or _LOG4J.fullmatch(name) or _NO_SETTINGS.fullmatch(name)
    )


def _debezium(environ: Mapping[str, str], address: Callable[[], str]) -> dict[str, str]:
    """The settings in Debezium's variables; none unless at least one is set."""
    if not any(environ.get(sign) for sign in _DEBEZIUM_SIGNS):
        return {}
    settings: dict[str, str] = {}
    for name, (setting, default) in DEBEZIUM.items():
        text = environ.get(name) or default
        if text is not None:
            settings[setting] = text
    settings.setdefault("rest.advertised.host.name", address())
    return settings


def _secrets(
    environ: Mapping[str, str], mapped: Mapping[str, str], read_file: Callable[[str], str]
) -> dict[str, str]:
    """The settings whose values are in files (`CONNECT_…_FILE`), unchanged except for trailing line
    ends."""
    settings: dict[str, str] = {}
    for name, path in mapped.items():
        if not name.endswith(FILE_SUFFIX):
            continue
        own = name.removesuffix(FILE_SUFFIX)
        if own in environ:
            raise ConfigInvalid([f"Both {own} and {name} are set; remove one of them."])
        [setting] = from_environment({own: ""})
        try:
            settings[setting] = read_file(path).rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigInvalid([f"{name}: cannot read '{path}': {error}."]) from error
    return settings


def _listen(settings: dict[str, str]) -> None:
    """`rest.host.name` and `rest.port`, which Kafka Connect no longer has, as `listeners`."""
    host, port = settings.pop("rest.host.name", ""), settings.pop("rest.port", "8083")
    settings.setdefault("listeners", f"http://{host}:{port}")


def _heap(environ: Mapping[str, str], settings: dict[str, str], notes: list[str]) -> None:
    name = "KAFKA_HEAP_OPTS" if environ.get("KAFKA_HEAP_OPTS") else "HEAP_OPTS"
    options = environ.get(name, "").split()
    for option in options:
        if option.startswith("-Xmx"):
            settings.setdefault(HEAP, f"{java_heap_mb(option, name)}m")
        elif not option.startswith("-Xms"):
            notes.append(f"{name}: {option} has no effect; only -Xmx is used.")


def _demand(settings: Mapping[str, str]) -> None:
    missing = [f"{variable(name)} is required." for name in REQUIRED if not settings.get(name)]
    for side in ("key", "value"):
        url = f"{side}.converter.schema.registry.url"
        if settings.get(f"{side}.converter") in REGISTRY_CONVERTERS and not settings.get(url):
            missing.append(f"{variable(url)} is required.")
    if missing:
        raise ConfigInvalid(missing)


def _ignored(environ: Mapping[str, str]) -> list[str]:
    return [
        f"{name} has no effect: {reason}."
        for name in sorted(environ)
        for start, reason in _KAFKA.items()
        if environ[name] and (name == start or (start.endswith("_") and name.startswith(start)))
    ]


def _log_environ(environ: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    """The variables that `LogSettings.of` understands, also in Debezium's forms: a root level in
    `CONNECT_LOG4J_LOGGERS` ("INFO, stdout"), `LOG_LEVEL`, and a variable for each logger."""
    shown = {
        name: environ[name]
        for name in (logs.FORMAT_VARIABLE, logs.LEVEL_VARIABLE, logs.ROOT_VARIABLE)
        if environ.get(name)
    }
    rows = [row.strip() for row in environ.get(logs.LOGGERS_VARIABLE, "").split(",") if row.strip()]
    if rows and "=" not in rows[0]:
        shown.setdefault(logs.ROOT_VARIABLE, rows[0])
        rows = []
    if level := environ.get("LOG_LEVEL"):
        shown.setdefault(logs.ROOT_VARIABLE, level)
    for name in sorted(environ):
        if logger := _LOGGER.fullmatch(name):
            rows.append(f"{logger[1].lower().replace('_', '.')}={environ[name]}")
        elif _LOG4J.fullmatch(name) and name not in (logs.ROOT_VARIABLE, logs.LOGGERS_VARIABLE):
            notes.append(f"{name} has no effect: the format is PENSTOCK_LOG_FORMAT, text or json.")
    # A logger's level may be followed by an appender.
    levels = [row.partition(",")[0].strip() for row in rows]
    return {**shown, logs.LOGGERS_VARIABLE: ",".join(levels)} if levels else shown


def kafka_timeout_s(environ: Mapping[str, str]) -> float:
    """How long to wait for Kafka: 60 s unless a variable says otherwise."""
    text = environ.get(KAFKA_TIMEOUT, "60")
    try:
        return float(text)
    except ValueError:
        raise StartupFailed(
            f"{KAFKA_TIMEOUT} is '{text}'; it must be a number of seconds."
        ) from None
