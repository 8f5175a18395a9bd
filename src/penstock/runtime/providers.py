"""The built-in config providers, and the set of those that a worker uses.

Sources: kafka-connect.md §13; KIP-297, KIP-421 (any configuration), KIP-993 (`allowed.paths`).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from penstock import KAFKA_VERSION
from penstock.api import Plugin
from penstock.api.provider import ConfigProvider
from penstock.config.checks import checking
from penstock.config.declare import listing, text
from penstock.config.define import HIDDEN, Config, ConfigDef, Props, under
from penstock.config.properties import parse_properties_text
from penstock.config.providers import Ask, Lookup, ProviderFailed, Transformed, masked, transformed
from penstock.config.redaction import redacted, without
from penstock.config.regex import RegexInvalid, compile_java
from penstock.config.worker_keys import CONFIG_PROVIDERS, PLUGIN_PATH
from penstock.errors import ConfigInvalid
from penstock.plugins.registry import PluginKind, Registry

log = logging.getLogger(__name__)

_PACKAGE: Final = "org.apache.kafka.common.config.provider"
_REMEMBERED: Final = 10_000

# fmt: off
ALLOWED_PATHS = listing("allowed.paths", None,
    "Absolute paths of the directories and files that may be read; unset: all.")


def _bad_pattern(text: str | None) -> str | None:
    try:
        compile_java(text or "")
    except RegexInvalid as problem:
        return f"Invalid regex: {problem}"
    return None


ALLOWLIST_PATTERN = text("allowlist.pattern", ".*",
    "Regular expression that the whole name of a variable must match.",
    check=checking("a regular expression", _bad_pattern))
# fmt: on


class _AllowedPaths:
    """The paths that placeholders may name. As in Kafka, only names are compared: links in an
    allowed directory can lead anywhere."""

    def __init__(self, texts: Sequence[str] | None) -> None:
        self._allowed = None if not texts else [_allowed(text) for text in texts]

    def path(self, text: str) -> Path | None:
        """The path; None, and a warning, if it is not allowed."""
        if self._allowed is None:
            return Path(text)
        path = Path(os.path.normpath(text))
        if any(path.is_relative_to(allowed) for allowed in self._allowed):
            return path
        log.warning("The path %s is not allowed to be accessed", text)
        return None


def _allowed(text: str) -> Path:
    path = Path(os.path.normpath(text))
    if not path.is_absolute():
        raise ConfigInvalid([f"Path {path} is not absolute"])
    if not path.exists():
        raise ConfigInvalid([f"Path {path} does not exist"])
    return path


class FileConfigProvider(ConfigProvider):
    """`${NAME:FILE:KEY}`: a setting in a properties file, in UTF-8."""

    plugin = Plugin(f"{_PACKAGE}.FileConfigProvider", KAFKA_VERSION, ConfigDef(ALLOWED_PATHS))

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._paths = _AllowedPaths(config[ALLOWED_PATHS])

    def get(self, path: str, keys: frozenset[str]) -> Lookup:
        file = self._paths.path(path) if path else None
        if file is None:
            return Lookup()
        try:
            settings = parse_properties_text(file.read_text("utf-8"))
        except (OSError, ValueError, ConfigInvalid) as error:
            # Only the kind of error: its text may quote the file.
            log.error("Could not read properties from file %s: %s", path, type(error).__name__)
            raise ProviderFailed(f"Could not read properties from file {path}") from None
        return Lookup({key: settings[key] for key in keys & settings.keys()})


class DirectoryConfigProvider(ConfigProvider):
    """`${NAME:DIRECTORY:KEY}`: the whole content of the file KEY, in UTF-8."""

    plugin = Plugin(f"{_PACKAGE}.DirectoryConfigProvider", KAFKA_VERSION, ConfigDef(ALLOWED_PATHS))

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._paths = _AllowedPaths(config[ALLOWED_PATHS])

    def get(self, path: str, keys: frozenset[str]) -> Lookup:
        folder = self._paths.path(path) if path else None
        if folder is None:
            return Lookup()
        if not folder.is_dir():
            log.warning("The path %s is not a directory", path)
            return Lookup()
        try:
            files = [file for file in folder.iterdir() if file.name in keys and file.is_file()]
        except OSError:
            raise ProviderFailed(f"Could not list directory {folder}") from None
        return Lookup({file.name: _content(file) for file in files})


def _content(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")  # line ends are kept
    except (OSError, ValueError):
        raise ProviderFailed(f"Could not read file {file} for property {file.name}") from None


class EnvVarConfigProvider(ConfigProvider):
    """`${NAME:VARIABLE}`: a variable of the worker's environment, as it was when it started."""

    plugin = Plugin(f"{_PACKAGE}.EnvVarConfigProvider", KAFKA_VERSION, ConfigDef(ALLOWLIST_PATTERN))

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        pattern = compile_java(config[ALLOWLIST_PATTERN])
        self._variables = {
            name: value for name, value in os.environ.items() if pattern.fullmatch(name)
        }

    def get(self, path: str, keys: frozenset[str]) -> Lookup:
        if path:
            raise ProviderFailed(
                f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'"
            )
        return Lookup({key: self._variables[key] for key in keys & self._variables.keys()})


BUILT_IN: Final = (DirectoryConfigProvider, EnvVarConfigProvider, FileConfigProvider)

PROVIDERS: Final[Mapping[str, type[ConfigProvider]]] = {
    name: cls
    for cls in BUILT_IN
    for name in (cls.plugin.class_name, cls.__name__, cls.__name__.removesuffix("ConfigProvider"))
}
"""Every name of a built-in provider; they need no entry point."""


class Providers:
    """The providers of a worker's `config.providers`. Thread-safe."""

    def __init__(self, props: Props, registry: Registry) -> None:
        """`props` are the worker's settings. Raises ConfigInvalid for an unknown or invalid
        provider."""
        names = ConfigDef(CONFIG_PROVIDERS).parse(props)[CONFIG_PROVIDERS]
        self._providers = {
            name: _provider(name, props, registry)
            for name in names
            # As in Kafka, a name without a class is neither a provider nor an error.
            if props.get(f"{CONFIG_PROVIDERS.name}.{name}.class") is not None
        }
        self._secrets: dict[str, None] = {}  # the newest last
        self._passwords: dict[str, None] = {}
        self._lock = threading.Lock()

    def transformed(self, config: Mapping[str, str | None]) -> Transformed:
        """A resolved configuration: see `penstock.config.providers.transformed`."""
        asks: Mapping[str, Ask] = {name: provider.get for name, provider in self._providers.items()}
        result = transformed(config, asks)
        if result.secrets:
            with self._lock:
                _newest(self._secrets, result.secrets)
        return result

    def remember(self, secrets: Iterable[str]) -> None:
        """Redacts the values of these PASSWORD settings, too, from now on."""
        with self._lock:
            _newest(self._passwords, secrets)

    def redacted(self, text: str) -> str:
        """The text without all values that providers have returned so far, or that are remembered,
        and without what looks like a credential."""
        return redacted(self.masked(text))

    def masked(self, text: str) -> str:
        """The text without all values that providers have returned so far, or that are
        remembered."""
        with self._lock:
            secrets, passwords = list(self._secrets), list(self._passwords)
        return without(masked(text, secrets, HIDDEN), passwords)

    def close(self) -> None:
        for name, provider in self._providers.items():
            try:
                provider.close()
            except Exception as error:  # a plugin's code; the worker stops anyway
                log.warning("failed to close config provider '%s': %s", name, error)


def _newest(known: dict[str, None], secrets: Iterable[str]) -> None:
    for secret in sorted(secrets):
        known.pop(secret, None)
        known[secret] = None
    while len(known) > _REMEMBERED:
        del known[next(iter(known))]


class LogFilter(logging.Filter):
    """Redacts secrets in all log records, including those of libraries."""

    def __init__(self, providers: Providers) -> None:
        super().__init__()
        self._providers = providers

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._providers.redacted(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = _TRACES.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self._providers.redacted(record.exc_text)
        return True


_TRACES: Final = logging.Formatter()


def _provider(name: str, props: Props, registry: Registry) -> ConfigProvider:
    setting = f"{CONFIG_PROVIDERS.name}.{name}.class"
    class_name = props[setting].strip()
    cls = registry.config_provider(class_name) or PROVIDERS.get(class_name)
    if cls is None:
        raise ConfigInvalid(
            [
                f"Invalid value {class_name} for configuration {setting}: Could not load config "
                "provider class or one of its dependencies. Known are: "
                + ", ".join(_provider_names(registry))
            ]
        )
    prefix = f"{CONFIG_PROVIDERS.name}.{name}.param."
    try:
        return cls(cls.plugin.config.parse(under(props, prefix)))
    except ConfigInvalid as error:
        raise ConfigInvalid([f"{prefix}*: {problem}" for problem in error.problems]) from error


def _provider_names(registry: Registry) -> list[str]:
    others = (entry.plugin.class_name for entry in registry.of_kind(PluginKind.CONFIG_PROVIDER))
    return sorted({*others, *(cls.plugin.class_name for cls in BUILT_IN)})


def resolved_worker(props: Props, registry: Registry) -> dict[str, str]:
    """A worker's settings with their placeholders resolved, except in `plugin.path`
    (kafka-connect.md §13.2). Raises ConfigInvalid, or ProviderFailed."""
    providers = Providers(props, registry)
    try:
        resolved = providers.transformed(props).props
    finally:
        providers.close()
    texts = {name: text for name, text in resolved.items() if text is not None}
    if PLUGIN_PATH.name in props:
        texts[PLUGIN_PATH.name] = props[PLUGIN_PATH.name]
    return texts
