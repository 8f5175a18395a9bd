"""Validation of a connector's configuration: `ConfigInfos`, and the requested plugins.

Settings that depend on the worker's and the connector's are checked here: converters with their
settings (kafka-connect.md §3.1), transforms, client overrides, the connector's own findings.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.api import Connector, Converter, Finding, HeaderConverter, SourceConnector
from penstock.config import connector as connector_rules
from penstock.config import connector_keys as keys
from penstock.config import render, topic_creation, worker_keys
from penstock.config import worker as worker_config
from penstock.config.checks import version_range_problem
from penstock.config.define import (
    HIDDEN,
    PASSWORD,
    REQUIRED,
    Choices,
    Config,
    ConfigDef,
    ConfigValue,
    Key,
    Props,
    invalid,
    under,
    with_errors,
)
from penstock.config.java_host import CHOICE
from penstock.config.providers import Transformed
from penstock.config.redaction import without
from penstock.config.restart import RESTART
from penstock.config.tracing import TRACE
from penstock.data.java_maps import hash_map_copy, hash_map_order
from penstock.errors import BadRequest, ConfigInvalid, NotInstalled, PenstockError
from penstock.plugins.registry import InstalledPlugin, PluginClass, PluginKind, Registry
from penstock.runtime import interceptors
from penstock.runtime.providers import Providers

_LIVE_S: Final = 20.0  # how long a validation waits for `validate_live`

CONVERTER_TYPE: Final = "converter.type"
_CONVERTERS: Final = (keys.KEY_CONVERTER, keys.VALUE_CONVERTER)


class NoConnectorType(BadRequest):
    """A configuration without `connector.class`."""


class Validator:
    """Validates for one worker, with its settings and plugins."""

    def __init__(
        self,
        worker: Config,
        registry: Registry,
        providers: Providers,
        java: Callable[[Mapping[str, str | None]], render.Json] | None = None,
    ) -> None:
        """`java` validates the configuration of a connector that is written in Java. Raises
        ConfigInvalid when the worker's own converters are invalid."""
        self._java = java
        self._worker = worker
        self._registry = registry
        self._providers = providers
        self._check_worker_converters()

    def validate(self, props: Mapping[str, str | None]) -> render.Json:
        """`ConfigInfos` of a connector's configuration (kafka-connect.md §1.8). Raises
        NoConnectorType or UnknownConnectorClass when no plugin matches, BadRequest for a malformed
        version.

        Placeholders are resolved to validate their values; the response has the placeholders.
        """
        transformed = self._providers.transformed(props)
        infos = _as_submitted(self._validate(transformed.props), props, transformed.props)
        return self._without_secrets(_explained(infos, transformed), transformed.props)

    def _without_secrets(self, infos: render.Json, used: Mapping[str, str | None]) -> render.Json:
        """The response with no secret in its errors."""
        secrets = [
            text
            for info in infos["configs"]
            if info["definition"] is not None
            and info["definition"]["type"] == PASSWORD.name
            and (text := used.get(info["definition"]["name"]))
        ]

        def shown(info: render.Json) -> render.Json:
            value = info["value"]
            if value is None or not value["errors"]:
                return info
            errors = [
                self._providers.redacted(without(error, secrets)) for error in value["errors"]
            ]
            return {**info, "value": {**value, "errors": errors}}

        return {**infos, "configs": [shown(info) for info in infos["configs"]]}

    def _validate(self, props: Mapping[str, str | None]) -> render.Json:
        name = props.get(keys.CONNECTOR_CLASS.name)
        if name is None:
            shown = ", ".join(f"{key}={shown_value(props[key])}" for key in hash_map_copy(props))
            text = f"Connector config {{{shown}}} contains no connector type"
            raise NoConnectorType(self._providers.redacted(text))
        entry = self._registry.connector_of(props)
        if entry.java:
            assert self._java is not None, "only a worker has connectors written in Java"
            return render.merged_infos(name, self._java(props), *_own_part(name, props))
        malformed = version_range_problem(props.get(keys.CONNECTOR_VERSION.name) or "")
        if malformed is not None:
            raise BadRequest(malformed)
        refused = list(_other_version(keys.CONNECTOR_CLASS, entry.cls, props))
        if refused:  # the settings of another version are unknown
            every = ConfigDef(*keys.CONNECTOR_KEYS)
            offered = _with_versions(every, {keys.CONNECTOR_VERSION.name: entry.plugin.version})
            return render.config_infos(name, [offered], _blamed(offered.validate(props), refused))
        framework = self._offered(entry, props)
        plugin = entry.plugin.config
        own = plugin.validate(props)
        values = [*_blamed(framework.validate(props), self._problems(entry, props)), *own]
        if not any(value.errors for value in own):
            values = _with_findings(values, _live(entry, props, self._providers.redacted))
        parts = [
            render.config_infos(name, [framework, plugin], values),
            *self._converter_parts(props),
            *self._override_parts(entry, props),
            *_own_part(name, props),
        ]
        return render.merged_infos(name, *parts)

    def _offered(self, entry: InstalledPlugin, props: Mapping[str, str | None]) -> ConfigDef:
        """The framework's settings as a validation shows them, with the worker's defaults. As in
        4.3.1, topic creation groups are checked only when the connector starts."""
        defaults = {key.name: self._worker.props.get(key.name) for key in _CONVERTERS}
        defaults[keys.HEADER_CONVERTER.name] = self._worker[worker_keys.HEADER_CONVERTER]
        definition = connector_rules.enrich(
            _base(entry),
            props,
            self._plugins(),
            {name: text for name, text in defaults.items() if text is not None},
        )
        versions: dict[str, str | None] = {keys.CONNECTOR_VERSION.name: entry.plugin.version}
        for key in (*_CONVERTERS, keys.HEADER_CONVERTER):
            version = self._converter_version(props.get(key.name) or defaults[key.name])
            versions[f"{key.name}.plugin.version"] = version
        return _with_versions(definition, versions)

    def _converter_version(self, name: str | None) -> str | None:
        cls = self._registry.header_converter(name.strip()) if name else None
        return cls.plugin.version if cls else None

    def framework(self, entry: InstalledPlugin, props: Mapping[str, str | None]) -> ConfigDef:
        """The framework's settings with which a task is planned."""
        definition = connector_rules.enrich(_base(entry), props, self._plugins())
        if entry.kind is PluginKind.SOURCE and self.creates_topics():
            definition = topic_creation.with_topic_creation(definition, props)
        return definition

    def _plugins(self) -> connector_rules.Plugins:
        return connector_rules.Plugins(
            transforms=self._classes(self._registry.transform, PluginKind.TRANSFORM),
            predicates=self._classes(self._registry.predicate, PluginKind.PREDICATE),
            converters=self._classes(self._registry.converter, PluginKind.CONVERTER),
            header_converters=self._classes(
                self._registry.header_converter, PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER
            ),
        )

    def _classes(
        self, find: Callable[[str], type | None], *kinds: PluginKind
    ) -> connector_rules.PluginClasses:
        entries = self._registry.of_kind(*kinds)
        return connector_rules.PluginClasses(
            {entry.plugin.class_name: entry.plugin.config for entry in entries},
            {
                name: entry.plugin.class_name
                for entry in entries
                for name in entry.names()
                if find(name) is entry.cls
            },
            {entry.plugin.class_name: (entry.plugin.version,) for entry in entries},
        )

    def creates_topics(self) -> bool:
        """Whether the worker creates topics for source connectors (`topic.creation.enable`)."""
        return self._worker[worker_keys.TOPIC_CREATION_ENABLE]

    def _converters_given(
        self, props: Mapping[str, str | None]
    ) -> Iterator[tuple[Key[Any], type[HeaderConverter]]]:
        """The converters that the connector sets itself, with their settings."""
        for key in (keys.HEADER_CONVERTER, *_CONVERTERS):
            name = props.get(key.name)
            cls = self._registry.header_converter(name.strip()) if name else None
            if cls is not None:
                yield key, cls

    def _problems(
        self, entry: InstalledPlugin, props: Mapping[str, str | None]
    ) -> Iterable[tuple[str, str]]:
        yield from connector_rules.null_value_problems(props)
        for key, cls in self._converters_given(props):
            yield from _other_version(key, cls, props)
        if entry.kind is PluginKind.SINK:
            yield from connector_rules.sink_group_problems(
                props, self._worker[worker_keys.GROUP_ID]
            )
            return
        values = connector_rules.SOURCE.validate(props)
        enabled = worker_config.exactly_once(self._worker)
        yield from connector_rules.exactly_once_problems(
            values, enabled, self._answer(entry, props, _is_exact)
        )
        yield from connector_rules.transaction_boundary_problems(
            values, bool(self._answer(entry, props, _ends_transactions))
        )

    def _answer(
        self,
        entry: InstalledPlugin,
        props: Mapping[str, str | None],
        question: Callable[[SourceConnector, Config], bool | None],
    ) -> bool | None:
        """A source connector's answer about its configuration; None if the configuration is
        invalid."""
        assert issubclass(entry.cls, SourceConnector)
        try:
            return question(entry.cls(), entry.plugin.config.parse(props))
        except ConfigInvalid:
            return None

    def _converter_parts(self, props: Mapping[str, str | None]) -> Iterable[render.Json]:
        for key, cls in self._converters_given(props):
            if any(_other_version(key, cls, props)):
                continue
            prefix, kind = f"{key.name}.", key.name.partition(".")[0]
            definition = always_typed(cls.plugin.config)
            texts = {**under(props, prefix), CONVERTER_TYPE: kind}
            values = {value.name: value for value in definition.validate(texts)}
            yield render.prefixed_infos(
                definition, [values[name] for name in hash_map_order(values)], prefix
            )

    def _override_parts(
        self, entry: InstalledPlugin, props: Mapping[str, str | None]
    ) -> Iterable[render.Json]:
        policy = self._worker[worker_keys.OVERRIDE_POLICY]
        allowlist = self._worker[worker_keys.OVERRIDE_ALLOWLIST]
        source, dead_letters = entry.kind is PluginKind.SOURCE, _dead_letter_topic(props)
        prefixes = ["producer.override."] if source or dead_letters else []
        if topic_creation.uses_topic_creation(props) if source else dead_letters:
            prefixes.append("admin.override.")
        if not source:
            prefixes.append("consumer.override.")
        for prefix in prefixes:
            values = connector_rules.check_overrides(policy, allowlist, under(props, prefix))
            client = prefix.partition(".")[0]
            if client == ("producer" if source else "consumer"):
                texts = {name: text for name, text in props.items() if text is not None}
                settings = worker_config.connector_client(self._worker, client, texts)
                own = under(props, prefix)
                if any(map(interceptors.concerns, own)):
                    found_problems = interceptors.problems(self._registry, client, settings, prefix)
                    values = with_errors(values, found_problems)
            yield render.prefixed_infos(None, values, prefix)

    def _check_worker_converters(self) -> None:
        """Checks that the worker's own converters and interceptors exist and that their settings
        are valid."""
        problems: list[str] = []
        for key in (
            worker_keys.KEY_CONVERTER,
            worker_keys.VALUE_CONVERTER,
            worker_keys.HEADER_CONVERTER,
        ):
            name = self._worker[key]
            kinds = [PluginKind.CONVERTER]
            cls: type[HeaderConverter] | None
            if key is worker_keys.HEADER_CONVERTER:
                kinds.append(PluginKind.HEADER_CONVERTER)
                cls = self._registry.header_converter(name)
            else:
                cls = self._registry.converter(name)
            if cls is None:
                installed = ", ".join(
                    entry.plugin.class_name for entry in self._registry.of_kind(*kinds)
                )
                text = f"Class {name} could not be found. Installed converters are: {installed}"
                problems.append(invalid(key.name, name, text))
                continue
            problems += (text for _, text in _other_version(key, cls, self._worker.props))
            try:
                cls.plugin.config.parse(self._worker.under(f"{key.name}."))
            except ConfigInvalid as error:
                problems += [f"{key.name}: {problem}" for problem in error.problems]
        for client in ("producer", "consumer"):
            settings, prefix = self._worker.under(f"{client}."), f"{client}."
            problems += (
                text for _, text in interceptors.problems(self._registry, client, settings, prefix)
            )
        if problems:
            raise ConfigInvalid(problems)

    def connector_entry(self, props: Props) -> InstalledPlugin:
        """The connector class in the requested version. Raises ConfigInvalid if that or a
        converter's version is not installed."""
        entry = self._registry.connector_of(props)
        requested = [(keys.CONNECTOR_CLASS, entry.cls), *self._converters_given(props)]
        problems = [text for key, cls in requested for _, text in _other_version(key, cls, props)]
        if problems:
            raise ConfigInvalid(list(dict.fromkeys(problems)))
        return entry


def _as_submitted(
    infos: render.Json, props: Mapping[str, str | None], used: Mapping[str, str | None]
) -> render.Json:
    """A validation's response with the placeholders as submitted instead of their values."""
    behind = {name: text for name, text in used.items() if text and text != props[name]}
    if not behind:
        return infos

    def shown(info: render.Json) -> render.Json:
        value = info["value"]
        text = behind.get(value["name"]) if value is not None else None
        if text is None or value is None:
            return info
        raw = props[value["name"]]
        errors = [error.replace(text, raw or "") for error in value["errors"]]
        submitted = value["value"] if value["value"] in (None, HIDDEN) else raw
        return {**info, "value": {**value, "value": submitted, "errors": errors}}

    return {**infos, "configs": [shown(info) for info in infos["configs"]]}


def _explained(infos: render.Json, transformed: Transformed) -> render.Json:
    """An invalid configuration's response that also names the placeholders without a value.

    A valid one is left alone: in Kafka Connect the connector gets the placeholder itself.
    """
    if not infos["error_count"] or not transformed.unresolved:
        return infos

    def named(info: render.Json) -> render.Json:
        value = info["value"]
        text = None if value is None else transformed.explain(value["name"])
        if text is None:
            return info
        shown = [str(each) for each in transformed.unresolved[value["name"]]]
        if any(all(each in error for each in shown) for error in value["errors"]):
            return info
        problem = f"Placeholder in configuration {value['name']}: {text}"
        return {**info, "value": {**value, "errors": [*value["errors"], problem]}}

    configs = [named(info) for info in infos["configs"]]
    more = sum(
        1
        for before, after in zip(infos["configs"], configs, strict=True)
        if after["value"] and after["value"]["errors"] and not before["value"]["errors"]
    )
    return {**infos, "error_count": infos["error_count"] + more, "configs": configs}


def _is_exact(connector: SourceConnector, config: Config) -> bool | None:
    return connector.exactly_once(config)


def _ends_transactions(connector: SourceConnector, config: Config) -> bool:
    return connector.defines_transactions(config)


def _dead_letter_topic(props: Mapping[str, str | None]) -> bool:
    return bool((props.get(keys.DLQ_TOPIC.name) or "").strip())


def shown_value(value: str | None) -> str:
    """A value as Java prints it inside a map."""
    return "null" if value is None else value


def _own_part(name: str, props: Mapping[str, str | None]) -> Iterable[render.Json]:
    """The validation of `penstock.restart.*`, `penstock.trace.*` and `penstock.java.*`; empty if
    none is set."""
    own = ConfigDef(
        *(key for key in (*RESTART.keys, *TRACE.keys, *CHOICE.keys) if key.name in props)
    )
    if own.keys:
        yield render.config_infos(name, [own], own.validate(props))


def _base(entry: InstalledPlugin) -> ConfigDef:
    return connector_rules.SOURCE if entry.kind is PluginKind.SOURCE else connector_rules.SINK


@dataclass(frozen=True, slots=True)
class _NoVersions:
    """A `Recommender` for the version of an unknown class: no values, not visible."""

    def values(self, name: str, parsed: Mapping[str, object]) -> Sequence[object]:
        return ()

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
        return False


def _with_versions(definition: ConfigDef, versions: Mapping[str, str | None]) -> ConfigDef:
    """The definition with the installed versions as recommended values of `*.plugin.version`; none
    where the class is unknown."""
    names = {keys.CONNECTOR_VERSION.name}
    names |= {f"{key.name}.plugin.version" for key in (*_CONVERTERS, keys.HEADER_CONVERTER)}
    return ConfigDef(
        *(
            _with_version(key, versions.get(key.name)) if key.name in names else key
            for key in definition.keys
        ),
        rules=definition.rules,
    )


def _other_version(
    key: Key[Any], cls: PluginClass, props: Mapping[str, str | None]
) -> Iterator[tuple[str, str]]:
    """Problems of a class and its requested version, each reported for both settings, as in
    4.3.1."""
    version = (
        keys.CONNECTOR_VERSION.name if key is keys.CONNECTOR_CLASS else f"{key.name}.plugin.version"
    )
    text = connector_rules.version_problem(
        cls.plugin.class_name, props.get(version), available(cls)
    )
    if text is not None:
        yield key.name, text
        yield version, text


def available(cls: PluginClass) -> list[str]:
    """The installed versions of a plugin, as messages list them: a converter is listed as a header
    converter too."""
    return [cls.plugin.version] * (2 if issubclass(cls, Converter) else 1)


def _with_version(key: Key[Any], version: str | None) -> Key[Any]:
    if version is None:
        return replace(key, recommender=_NoVersions())
    return replace(key, default=version, recommender=Choices((version,)))


def always_typed(definition: ConfigDef) -> ConfigDef:
    """A converter's settings with `converter.type` as required, which the runtime fills in."""
    return ConfigDef(
        *(
            replace(key, default=REQUIRED) if key.name == CONVERTER_TYPE else key
            for key in definition.keys
        ),
        rules=definition.rules,
    )


def _blamed(
    values: Sequence[ConfigValue], problems: Iterable[tuple[str, str]]
) -> list[ConfigValue]:
    """The values with further problems, including those of undeclared settings."""
    return _with_findings(values, (Finding(name, text) for name, text in problems))


def _with_findings(values: Sequence[ConfigValue], findings: Iterable[Finding]) -> list[ConfigValue]:
    """The values with the findings of `validate_live`."""
    by_name = {value.name: value for value in values}
    for finding in findings:
        value = by_name.get(finding.setting, ConfigValue(finding.setting))
        if finding.recommended is not None:
            value = replace(value, recommended=tuple(finding.recommended))
        by_name[finding.setting] = (
            value if finding.error is None else value.with_error(finding.error)
        )
    return list(by_name.values())


def _live(
    entry: InstalledPlugin, props: Mapping[str, str | None], redacted: Callable[[str], str]
) -> Iterator[Finding]:
    """Findings about missing packages, or else those of the connector's live validation."""
    assert issubclass(entry.cls, Connector)
    try:
        config = entry.plugin.config.parse(props)
    except ConfigInvalid:  # a null, which alone is not an error
        return
    connector = entry.cls()
    try:
        connector.check_installed(config)
    except NotInstalled as missing:
        yield Finding(keys.CONNECTOR_CLASS.name, str(missing))
        return
    for finding in _live_findings(connector, config):
        error = finding.error
        # Unlike other errors it may quote other settings.
        yield replace(finding, error=error and redacted(error))


def _live_findings(connector: Connector, config: Config) -> list[Finding]:
    """The findings of `validate_live` within `_LIVE_S`."""
    findings: list[Finding] = []
    failed: list[BaseException] = []

    def gather() -> None:
        try:
            for finding in connector.validate_live(config):
                findings.append(finding)  # noqa: PERF402 - each counts, even if a later one fails
        except BaseException as error:
            failed.append(error)

    # A plugin's code, which may block for ever.
    thread = threading.Thread(target=gather, name="validate-live", daemon=True)
    thread.start()
    thread.join(_LIVE_S)
    reported, definition = list(findings), connector.plugin.config
    if thread.is_alive():
        text = f"The connector did not finish checking its system within {_LIVE_S:g} s."
        return [*reported, Finding(keys.CONNECTOR_CLASS.name, text)]
    for error in failed:
        if not isinstance(error, PenstockError):
            raise error
        texts = error.problems if isinstance(error, ConfigInvalid) else (str(error),)
        reported += [Finding(_named_in(text, definition), text) for text in texts]
    return reported


def _named_in(text: str, definition: ConfigDef) -> str:
    """The setting that a message names, by the longest match; else `connector.class`."""
    names = sorted((key.name for key in definition.keys), key=len, reverse=True)
    matches = (name for name in names if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text))
    return next(matches, keys.CONNECTOR_CLASS.name)
