"""Where Kafka is, how its clients connect, and which converters apply.

A setting may come from several places; the first of these that has it applies:

1. the command line: `--bootstrap-server`, `--key-converter` and the like, `--set KEY=VALUE`
2. the connector that `--connector` names: its converters and its `consumer.override.*` or
   `producer.override.*`
3. a worker's settings: the file that `--worker` names, overridden by `CONNECT_*` variables
4. for Kafka's address `PENSTOCK_BOOTSTRAP_SERVERS` (before `CONNECT_*` variables without a file),
   otherwise `localhost:9092`

As in a worker, the place that names a converter's class configures it (kafka-connect.md §3.1);
only `--set` adds to that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.cli import files, rest
from penstock.cli.exits import NotThere, Unusable
from penstock.config.define import under
from penstock.errors import ConfigInvalid

if TYPE_CHECKING:
    from penstock.api import HeaderConverter
    from penstock.cli.session import CommandSession
    from penstock.kafka.clients import Translated
    from penstock.plugins.registry import Registry

LOCAL: Final = "localhost:9092"
VARIABLE: Final = "PENSTOCK_BOOTSTRAP_SERVERS"
SIDES: Final = ("key", "value", "header")
LINE: Final = "line"
JSON: Final = "json"
RAW: Final = "raw"
FORMATS: Final = (LINE, JSON, RAW)

_BOOTSTRAP: Final = "bootstrap.servers"
_SECURITY: Final = ("security.", "sasl.", "ssl.")
_NOT_OURS: Final = frozenset(
    "group.id group.instance.id client.id auto.offset.reset enable.auto.commit key.serializer "
    "value.serializer key.deserializer value.deserializer transactional.id".split()
)
"""Client settings of a worker or connector that are about its own reading and writing."""


@dataclass(frozen=True, slots=True)
class ConverterOptions:
    """The options of the command line."""

    bootstrap: str | None = None
    connector: str | None = None
    worker: Path | None = None
    pairs: tuple[str, ...] = ()
    converters: Mapping[str, str | None] = field(default_factory=dict)  # by side


@dataclass(frozen=True, slots=True)
class RecordsSettings:
    """The effective settings. Sides without a named converter are missing in `converters`."""

    bootstrap: str
    origin: str  # of the address: an option, a file, a variable, or the default
    java: Mapping[str, str]  # the client's settings in Java's names
    converters: Mapping[str, HeaderConverter]
    connector: str | None = None  # the one that the command line names
    explicit: frozenset[str] = frozenset()  # the client's settings that the command line names

    def client(self, translated: Translated) -> dict[str, str | int | float | bool]:
        """Settings in the client's own names. Raises Unusable for a setting of the command line
        that the client does not know; a worker's or connector's may be for another client."""
        for name in translated.ignored:
            if name in self.explicit:
                raise Unusable(
                    f"--set {name}: the Kafka client here has no such setting.",
                    "Settings of converters begin with key.converter. or value.converter.",
                )
        return {"log_level": 0, **translated.settings}


def gather(session: CommandSession, options: ConverterOptions, client: str) -> RecordsSettings:
    """Everything that a `client` (`consumer` or `producer`) needs. Raises Unusable, NotThere for an
    unknown connector or converter, ConfigInvalid, and StartupFailed for an unreadable file."""
    from penstock.cli import start

    pairs = files.settings(options.pairs)
    worker: Mapping[str, str] = start.worker_settings(options.worker, session.environ)
    connector = _connector(session, options.connector)
    local = _Local(worker)
    worker = local.resolved_worker(worker)
    connector = local.resolved(connector, options.connector)
    bootstrap, origin = _bootstrap(session, options, client, pairs, connector, worker)
    converters = {
        side: converter
        for side in SIDES
        if (converter := _converter(local, side, options, pairs, connector, worker)) is not None
    }
    explicit = {
        key: text for key, text in pairs.items() if not key.startswith(tuple(map(_prefix, SIDES)))
    }
    java = {**_client(client, connector, worker), **explicit, _BOOTSTRAP: bootstrap}
    return RecordsSettings(
        bootstrap, origin, java, converters, options.connector, frozenset(explicit)
    )


@contextmanager
def settings_checked() -> Iterator[None]:
    """Raises Unusable for settings that are invalid, or that the Kafka client refuses when it is
    created."""
    from confluent_kafka import KafkaException

    try:
        yield
    except (KafkaException, ConfigInvalid) as error:
        text = str(error) if isinstance(error, ConfigInvalid) else f"{error.args[0].str()}."
        raise Unusable(
            f"The settings of the Kafka client are invalid: {text}",
            "They come from --set, the connector (consumer.override.*, producer.override.*) and "
            "the worker's settings.",
        ) from error


class _Local:
    """Plugins and config providers of this machine; searched only if something needs them."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        self._worker = worker
        self._registry: Registry | None = None

    @property
    def registry(self) -> Registry:
        if self._registry is None:
            from penstock.plugins import path as plugin_path

            # Problems of other plugins concern the worker only.
            self._registry = plugin_path.survey(self._worker).registry
        return self._registry

    def resolved_worker(self, settings: Mapping[str, str]) -> Mapping[str, str]:
        if not any("${" in text for text in settings.values()):
            return settings
        from penstock.runtime.providers import resolved_worker

        return resolved_worker(settings, self.registry)

    def resolved(self, settings: Mapping[str, str], name: str | None) -> Mapping[str, str]:
        if not any("${" in text for text in settings.values()):
            return settings
        from penstock.runtime.providers import Providers

        providers = Providers(self._worker, self.registry)
        try:
            resolved = providers.transformed(settings).props
        finally:
            providers.close()
        key = next((key for key, text in resolved.items() if text and "${" in text), None)
        if key is not None:
            raise Unusable(
                f"'{key}' of the connector '{name}' refers to a secret ({settings[key]}) "
                "that only its worker can look up.",
                "--worker FILE names the worker's settings, with its config providers; or use "
                "--set "
                f"{key.replace('consumer.override.', '').replace('producer.override.', '')}=VALUE.",
            )
        return {key: text for key, text in resolved.items() if text is not None}


def _connector(session: CommandSession, name: str | None) -> Mapping[str, str]:
    """The connector's converters and client settings."""
    if name is None:
        return {}
    with session.connect() as connect:
        config: Mapping[str, str | None] = connect.get(rest.connector(name, "config")).read(dict)
    prefixes = (
        *(f"{side}.converter" for side in SIDES),
        "consumer.override.",
        "producer.override.",
    )
    return {key: text for key, text in config.items() if text and key.startswith(prefixes)}


def _bootstrap(
    session: CommandSession,
    options: ConverterOptions,
    client: str,
    pairs: Mapping[str, str],
    connector: Mapping[str, str],
    worker: Mapping[str, str],
) -> tuple[str, str]:
    own = _overrides(client, connector).get(_BOOTSTRAP)
    variable = session.environ.get(VARIABLE)
    of_file = worker.get(f"{client}.{_BOOTSTRAP}") or worker.get(_BOOTSTRAP)
    places = (
        (options.bootstrap, "--bootstrap-server"),
        (pairs.get(_BOOTSTRAP), f"--set {_BOOTSTRAP}"),
        (own, f"the connector '{options.connector}'"),
        (of_file if options.worker else None, f"{options.worker} and CONNECT_* variables"),
        (variable, VARIABLE),
        (of_file, "CONNECT_BOOTSTRAP_SERVERS"),
    )
    return next(((text, origin) for text, origin in places if text), (LOCAL, "the default"))


def _overrides(client: str, connector: Mapping[str, str]) -> dict[str, str]:
    """The connector's overrides for a client. A connector has them for the client of its kind only;
    their address and security settings apply to the other client too."""
    other = "producer" if client == "consumer" else "consumer"
    theirs = under(connector, f"{other}.override.")
    return {
        **{key: text for key, text in theirs.items() if key.startswith((_BOOTSTRAP, *_SECURITY))},
        **under(connector, f"{client}.override."),
    }


def _client(client: str, connector: Mapping[str, str], worker: Mapping[str, str]) -> dict[str, str]:
    """The client settings of the worker and the connector."""
    own = under(worker, f"{client}.")
    if not any(key.startswith(_SECURITY) for key in own):
        # The worker's own connection; its tasks' clients have settings only if theirs differ.
        own |= {key: text for key, text in worker.items() if key.startswith(_SECURITY)}
    inherited = {**own, **_overrides(client, connector)}
    return {key: text for key, text in inherited.items() if key not in _NOT_OURS}


def _prefix(side: str) -> str:
    return f"{side}.converter"


def _converter(
    local: _Local,
    side: str,
    options: ConverterOptions,
    pairs: Mapping[str, str],
    connector: Mapping[str, str],
    worker: Mapping[str, str],
) -> HeaderConverter | None:
    from penstock.api import Use

    name = _prefix(side)
    more = under(pairs, f"{name}.")
    on_command_line = options.converters.get(side) or pairs.get(name)
    if on_command_line:
        class_name, settings = on_command_line, more
    else:
        chosen = connector if connector.get(name) else worker
        class_name, settings = chosen.get(name, ""), {**under(chosen, f"{name}."), **more}
    if not class_name:
        if more:
            raise Unusable(
                f"--set {name}.{next(iter(more))}=… needs a converter.",
                f"Name it: --{side}-converter CLASS.",
            )
        return None
    registry = local.registry
    find = registry.header_converter if side == "header" else registry.converter
    kind = find(class_name.strip())
    if kind is None:
        raise NotThere(
            f"There is no converter '{class_name}' here ({name}).",
            "`penstock plugins doctor --all` lists them; --worker names a file with a plugin.path.",
        )
    return kind(kind.plugin.config.parse({**settings, "converter.type": side}), Use(side))
