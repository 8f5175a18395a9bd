"""From a connector's configuration to its tasks: validation, task configurations, flow plans.

Whatever combines the worker's settings with a connector's is here: which converter applies with
which settings (kafka-connect.md §3.1), which settings each Kafka client gets (kafka-connect.md
§2.5).
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.api import (
    Connector,
    ConnectorContext,
    Converter,
    Finding,
    HeaderConverter,
    Predicate,
    SinkConnector,
    SourceConnector,
)
from penstock.cluster.records import RawProps
from penstock.cluster.recovery import NO_RESTARTS, Causes, RestartPolicy
from penstock.config import connector as connector_rules
from penstock.config import connector_keys as keys
from penstock.config import render, restart, topic_creation, worker_keys
from penstock.config import worker as worker_config
from penstock.config.checks import version_range_problem
from penstock.config.define import (
    HIDDEN,
    REQUIRED,
    Choices,
    Config,
    ConfigDef,
    ConfigValue,
    Key,
    Props,
    invalid,
    under,
)
from penstock.config.providers import Transformed, restored
from penstock.config.restart import RESTART, restart_settings
from penstock.data.java_maps import copy_buckets, hash_map_copy, hash_map_order
from penstock.errors import BadRequest, ConfigInvalid, NotInstalled, PenstockError
from penstock.flow.plan import (
    Boundary,
    Conversion,
    ConverterPlan,
    DeadLetters,
    FlowPlan,
    SinkPlan,
    SourcePlan,
    Tolerance,
    TopicGroup,
    Transactions,
    TransformPlan,
)
from penstock.ids import TaskId
from penstock.kafka import clients
from penstock.plugins.registry import Found, Kind, PluginClass, Registry
from penstock.runtime.instances import stop
from penstock.runtime.providers import Providers

log = logging.getLogger(__name__)

_PRODUCER: Final[Mapping[str, str]] = {
    "acks": "all",
    "delivery.timeout.ms": "2147483647",
    "linger.ms": "5",
    "max.request.size": "1048576",
}
"""Defaults of a source task's producer (kafka-connect.md §8.2). It is idempotent instead of limited
to one request in flight, which keeps the order too and repeats nothing."""

_SINK_CONSUMER: Final[Mapping[str, str]] = {
    "auto.offset.reset": "earliest",
    # Cooperative: a rebalance revokes only the partitions that move.
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "max.poll.records": "10000",  # measured; with more unprocessed records, partitions are paused
}
"""Defaults of a sink task's consumer (kafka-connect.md §7.1)."""

_SHARED_CONSUMER: Final[Mapping[str, str]] = {
    # Members learn of a rebalance with their heartbeats. With one every 3 s, the first of two tasks
    # to join had all partitions for as long, and read records twice.
    "heartbeat.interval.ms": "500",
}
"""Further defaults where the connector may have several tasks."""

_PATTERN_CONSUMER: Final[Mapping[str, str]] = {"metadata.max.age.ms": "5000"}
"""Further defaults with `topics.regex`: how soon a new topic is found."""

_OURS: Final = ("key.deserializer", "value.deserializer", "enable.auto.commit")
"""Settings of a sink task's consumer that a user cannot change."""

_LIVE_S: Final = 20.0  # how long a validation waits for `validate_live`

_CONVERTER_TYPE: Final = "converter.type"
_CONVERTERS: Final = (keys.KEY_CONVERTER, keys.VALUE_CONVERTER)


class NoConnectorType(BadRequest):
    """A configuration without `connector.class`."""

    code = "config.no_connector_type"


class TooManyTasks(PenstockError):
    """A connector generated more tasks than `tasks.max` (kafka-connect.md §3.1)."""

    code = "connector.too_many_tasks"


def _nobody(what: str | TaskId, ms: int | None) -> None:
    """Whoever only plans has nothing to start anew."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A connector's task configurations as they are stored (kafka-connect.md §3.4), after how many
    milliseconds they are to be generated again (None: only on request), and the instance that
    generated them."""

    configs: Sequence[Props]
    again_ms: int | None
    connector: Connector


class Planner:
    """Plans for one worker, from its settings and plugins."""

    def __init__(
        self,
        worker: Config,
        registry: Registry,
        holds: Callable[[str | TaskId, int | None], None] = _nobody,
    ) -> None:
        """`holds` is called whenever a connector or task starts, with the TTL of its configuration
        in milliseconds; None: no TTL."""
        self._worker = worker
        self._registry = registry
        self._holds = holds
        self.providers = Providers(worker.props, registry)
        self._check_worker_converters()

    # ── validation ───────────────────────────────────────────────────────────────────────────

    def validate(self, props: Mapping[str, str | None]) -> render.Json:
        """`ConfigInfos` of a connector's configuration (kafka-connect.md §1.8). Raises
        NoConnectorType or UnknownConnectorClass when no plugin matches, BadRequest for a malformed
        version.

        Placeholders are resolved to validate their values; the response has the placeholders.
        """
        used = self.providers.transformed(props).props
        return _as_submitted(self._validate(used), props, used)

    def _validate(self, props: Mapping[str, str | None]) -> render.Json:
        name = props.get(keys.CONNECTOR_CLASS.name)
        if name is None:
            shown = ", ".join(f"{key}={shown_value(props[key])}" for key in hash_map_copy(props))
            text = f"Connector config {{{shown}}} contains no connector type"
            raise NoConnectorType(self.providers.redacted(text))
        found = self._registry.connector(name.strip())
        malformed = version_range_problem(props.get(keys.CONNECTOR_VERSION.name) or "")
        if malformed is not None:
            raise BadRequest(malformed)
        refused = list(_other_version(keys.CONNECTOR_CLASS, found.cls, props))
        if refused:  # so nobody knows what settings it has
            every = ConfigDef(*keys.CONNECTOR_KEYS)
            offered = _with_versions(every, {keys.CONNECTOR_VERSION.name: found.plugin.version})
            return render.config_infos(name, [offered], _blamed(offered.validate(props), refused))
        framework = self._offered(found, props)
        plugin = found.plugin.config
        own = plugin.validate(props)
        values = [*_blamed(framework.validate(props), self._problems(found, props)), *own]
        if not any(value.errors for value in own):
            values = _with_findings(values, self._live(found, props))
        parts = [
            render.config_infos(name, [framework, plugin], values),
            *self._converter_parts(props),
            *self._override_parts(found, props),
            *_restart_part(name, props),
        ]
        return render.merged_infos(name, *parts)

    def _live(self, found: Found, props: Mapping[str, str | None]) -> Iterator[Finding]:
        """What is not installed for the connector, or else what it finds where it connects to."""
        assert issubclass(found.cls, Connector)
        try:
            config = found.plugin.config.parse(props)
        except ConfigInvalid:  # a null, which is no error by itself
            return
        connector = found.cls()
        try:
            connector.check_installed(config)
        except NotInstalled as missing:
            yield Finding(keys.CONNECTOR_CLASS.name, str(missing))
            return
        for finding in _looked(connector, config):
            error = finding.error
            # Unlike other errors it may tell of settings besides its own.
            yield replace(finding, error=error and self.providers.redacted(error))

    def _offered(self, found: Found, props: Mapping[str, str | None]) -> ConfigDef:
        """The framework's settings as a validation shows them, with the worker's defaults. As in
        4.2.0, topic creation groups are checked only when the connector starts."""
        defaults = {key.name: self._worker.props.get(key.name) for key in _CONVERTERS}
        defaults[keys.HEADER_CONVERTER.name] = self._worker[worker_keys.HEADER_CONVERTER]
        definition = connector_rules.enrich(
            _base(found),
            props,
            self._plugins(),
            {name: text for name, text in defaults.items() if text is not None},
        )
        versions: dict[str, str | None] = {keys.CONNECTOR_VERSION.name: found.plugin.version}
        for key in (*_CONVERTERS, keys.HEADER_CONVERTER):
            version = self._converter_version(props.get(key.name) or defaults[key.name])
            versions[f"{key.name}.plugin.version"] = version
        return _with_versions(definition, versions)

    def _converter_version(self, name: str | None) -> str | None:
        cls = self._registry.header_converter(name.strip()) if name else None
        return cls.plugin.version if cls else None

    def _framework(self, found: Found, props: Mapping[str, str | None]) -> ConfigDef:
        definition = connector_rules.enrich(_base(found), props, self._plugins())
        if found.kind is Kind.SOURCE and self._creates_topics():
            definition = topic_creation.with_topic_creation(definition, props)
        return definition

    def _plugins(self) -> connector_rules.Plugins:
        return connector_rules.Plugins(
            transforms=self._classes(self._registry.transform, Kind.TRANSFORM),
            predicates=self._classes(self._registry.predicate, Kind.PREDICATE),
            converters=self._classes(self._registry.converter, Kind.CONVERTER),
            header_converters=self._classes(
                self._registry.header_converter, Kind.CONVERTER, Kind.HEADER_CONVERTER
            ),
        )

    def _classes(
        self, find: Callable[[str], type | None], *kinds: Kind
    ) -> connector_rules.PluginClasses:
        found = self._registry.of_kind(*kinds)
        return connector_rules.PluginClasses(
            {each.plugin.class_name: each.plugin.config for each in found},
            {
                name: each.plugin.class_name
                for each in found
                for name in each.names()
                if find(name) is each.cls
            },
            {each.plugin.class_name: (each.plugin.version,) for each in found},
        )

    def _creates_topics(self) -> bool:
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

    def _problems(self, found: Found, props: Mapping[str, str | None]) -> Iterable[tuple[str, str]]:
        yield from connector_rules.null_value_problems(props)
        for key, cls in self._converters_given(props):
            yield from _other_version(key, cls, props)
        if found.kind is Kind.SINK:
            yield from connector_rules.sink_group_problems(
                props, self._worker[worker_keys.GROUP_ID]
            )
            return
        values = connector_rules.SOURCE.validate(props)
        enabled = worker_config.exactly_once(self._worker)
        yield from connector_rules.exactly_once_problems(
            values, enabled, self._asked(found, props, _is_exact)
        )
        yield from connector_rules.transaction_boundary_problems(
            values, bool(self._asked(found, props, _ends_transactions))
        )

    def _asked(
        self,
        found: Found,
        props: Mapping[str, str | None],
        question: Callable[[SourceConnector, Config], bool | None],
    ) -> bool | None:
        """A source connector's answers on its configuration; None if the configuration is
        invalid."""
        assert issubclass(found.cls, SourceConnector)
        try:
            return question(found.cls(), found.plugin.config.parse(props))
        except ConfigInvalid:
            return None

    def _converter_parts(self, props: Mapping[str, str | None]) -> Iterable[render.Json]:
        for key, cls in self._converters_given(props):
            if any(_other_version(key, cls, props)):
                continue
            prefix, kind = f"{key.name}.", key.name.partition(".")[0]
            definition = always_typed(cls.plugin.config)
            given = {**under(props, prefix), _CONVERTER_TYPE: kind}
            values = {value.name: value for value in definition.validate(given)}
            yield render.prefixed_infos(
                definition, [values[name] for name in hash_map_order(values)], prefix
            )

    def _override_parts(
        self, found: Found, props: Mapping[str, str | None]
    ) -> Iterable[render.Json]:
        policy = self._worker[worker_keys.OVERRIDE_POLICY]
        allowlist = self._worker[worker_keys.OVERRIDE_ALLOWLIST]
        source, dead_letters = found.kind is Kind.SOURCE, _dead_letter_topic(props)
        prefixes = ["producer.override."] if source or dead_letters else []
        if topic_creation.uses_topic_creation(props) if source else dead_letters:
            prefixes.append("admin.override.")
        if not source:
            prefixes.append("consumer.override.")
        for prefix in prefixes:
            values = connector_rules.check_overrides(policy, allowlist, under(props, prefix))
            yield render.prefixed_infos(None, values, prefix)

    def _check_worker_converters(self) -> None:
        """Checks that the worker's own converters exist and that their settings are valid."""
        problems: list[str] = []
        for key in (
            worker_keys.KEY_CONVERTER,
            worker_keys.VALUE_CONVERTER,
            worker_keys.HEADER_CONVERTER,
        ):
            name = self._worker[key]
            kinds = [Kind.CONVERTER]
            cls: type[HeaderConverter] | None
            if key is worker_keys.HEADER_CONVERTER:
                kinds.append(Kind.HEADER_CONVERTER)
                cls = self._registry.header_converter(name)
            else:
                cls = self._registry.converter(name)
            if cls is None:
                known = ", ".join(
                    found.plugin.class_name for found in self._registry.of_kind(*kinds)
                )
                text = f"Class {name} could not be found. Installed converters are: {known}"
                problems.append(invalid(key.name, name, text))
                continue
            problems += (text for _, text in _other_version(key, cls, self._worker.props))
            try:
                cls.plugin.config.parse(self._worker.under(f"{key.name}."))
            except ConfigInvalid as error:
                problems += [f"{key.name}: {problem}" for problem in error.problems]
        if problems:
            raise ConfigInvalid(problems)

    # ── tasks ────────────────────────────────────────────────────────────────────────────────

    def resolved(self, config: RawProps) -> RawProps:
        """A connector's configuration with its placeholders resolved (kafka-connect.md §13).
        Raises ProviderFailed."""
        return self.providers.transformed(config).props

    def restarts(self, config: RawProps) -> RestartPolicy:
        """The restart policy of a connector; no restarts if its settings are invalid."""
        try:
            parsed = RESTART.parse(restart_settings(self._worker.props, config))
        except ConfigInvalid as error:
            log.warning("automatic restarts are off: %s", error)
            return NO_RESTARTS
        return RestartPolicy(
            Causes(parsed[restart.POLICY].lower()),
            parsed[restart.ATTEMPTS],
            parsed[restart.BACKOFF],
            parsed[restart.BACKOFF_MAX],
            parsed[restart.WINDOW],
        )

    def planned(
        self,
        name: str,
        config: RawProps,
        running: Connector | None = None,
        context: ConnectorContext | None = None,
    ) -> Planned:
        """Generates task configurations, with the instance that is `running` or with a new one. A
        new one is started with `context`, if given, and stopped if it fails."""
        made = self.providers.transformed(config)
        self._holds(name, _held_ms(made))
        props = _texts(made.props)
        found = self._found(props)
        framework = self._framework(found, props).parse(props)
        own = found.plugin.config.parse(props)
        assert issubclass(found.cls, Connector)
        most = framework[keys.TASKS_MAX]
        connector = running or found.cls()
        connector.check_installed(own)
        try:
            if running is None and context is not None:
                connector.start(own, context)
            planned = connector.plan_tasks(own, most)
        except BaseException:
            if running is None and context is not None:
                stop(name, connector)
            raise
        if len(planned) > most:
            if framework[keys.TASKS_MAX_ENFORCE]:
                raise TooManyTasks(
                    f"The connector {name} has generated {len(planned)} tasks, which is greater "
                    f"than {most}, the maximum number of tasks it is configured to create. This "
                    "behaviour should be considered a bug and is disallowed. If necessary, it can "
                    "be permitted by reconfiguring the connector with 'tasks.max.enforce' set to "
                    "false; however, this option will be removed in a future release of Kafka "
                    "Connect."
                )
            log.warning("generated %d tasks, although tasks.max is %d", len(planned), most)
        task_class = found.plugin.task_class or found.plugin.class_name
        added = {"task.class": task_class}
        for key in (keys.TOPICS, keys.TOPICS_REGEX):
            if found.kind is Kind.SINK and props.get(key.name):
                added[key.name] = props[key.name]
        configs = [restored(config, _as_stored({**task, **added}, len(task))) for task in planned]
        again_ms = connector.replan_ms(own) if isinstance(connector, SourceConnector) else None
        return Planned(configs, again_ms, connector)

    def flow(
        self, task: TaskId, run: int, connector_config: RawProps, task_config: RawProps
    ) -> FlowPlan:
        """The flow plan of one task. Raises whatever makes the task fail to start."""
        made = self.providers.transformed(connector_config)
        own_made = self.providers.transformed(task_config)
        held = [each for each in (_held_ms(made), own_made.ttl_ms) if each is not None]
        self._holds(task, min(held, default=None) if _reloads(made.props) else None)
        props = _texts(made.props)
        found = self._found(props)
        framework = self._framework(found, props).parse(props)
        own = found.plugin.config.parse(_texts(own_made.props))
        conversion = Conversion(
            key=self._converter(props, keys.KEY_CONVERTER.name),
            value=self._converter(props, keys.VALUE_CONVERTER.name),
            header=self._converter(props, keys.HEADER_CONVERTER.name),
            transforms=tuple(self._transform(alias, props) for alias in framework[keys.TRANSFORMS]),
        )
        tolerance = Tolerance(
            tolerate_all=framework[keys.ERRORS_TOLERANCE].lower() == "all",
            log=framework[keys.ERRORS_LOG_ENABLE],
            log_messages=framework[keys.ERRORS_LOG_MESSAGES],
            retry_timeout_ms=framework[keys.ERRORS_RETRY_TIMEOUT],
            retry_delay_max_ms=framework[keys.ERRORS_RETRY_MAX_DELAY],
            dead_letters=self._dead_letters(task, props),
        )
        if issubclass(found.cls, SourceConnector):
            transactions = (
                self._transactions(framework) if worker_config.exactly_once(self._worker) else None
            )
            return SourcePlan(
                task=task,
                run=run,
                connector=found.cls,
                config=own,
                conversion=conversion,
                tolerance=tolerance,
                producer=self._producer(task, props, exactly_once=transactions is not None),
                topic_groups=self._topic_groups(props),
                transactions=transactions,
            )
        assert issubclass(found.cls, SinkConnector)
        pattern = framework[keys.TOPICS_REGEX] or None
        given = self._client("consumer", props)
        return SinkPlan(
            task=task,
            run=run,
            connector=found.cls,
            config=own,
            conversion=conversion,
            tolerance=tolerance,
            topics=framework[keys.TOPICS],
            topics_regex=pattern,
            consumer={
                **_SINK_CONSUMER,
                **(_SHARED_CONSUMER if framework[keys.TASKS_MAX] > 1 else {}),
                **(_PATTERN_CONSUMER if pattern else {}),
                "group.id": connector_rules.consumer_group(task.connector),
                "client.id": f"connector-consumer-{task}",
                **{name: text for name, text in given.items() if name not in _OURS},
            },
            admin=_lag_client(task, given),
            group_admin=_group_client(given),
            commit_interval_ms=self._worker[worker_keys.OFFSET_FLUSH_INTERVAL],
        )

    def _found(self, props: Props) -> Found:
        """The connector class in the requested version. Raises ConfigInvalid if that or a
        converter's version is not installed."""
        found = self._registry.connector(props[keys.CONNECTOR_CLASS.name].strip())
        asked = [(keys.CONNECTOR_CLASS, found.cls), *self._converters_given(props)]
        problems = [text for key, cls in asked for _, text in _other_version(key, cls, props)]
        if problems:
            raise ConfigInvalid(list(dict.fromkeys(problems)))
        return found

    def _converter(self, props: Props, name: str) -> ConverterPlan:
        """Whoever sets the class configures it; sub-keys are not merged (kafka-connect.md §3.1)."""
        chosen = props if props.get(name) else self._worker.props
        wanted = (chosen.get(name) or self._worker[worker_keys.HEADER_CONVERTER]).strip()
        header = name == keys.HEADER_CONVERTER.name
        find = self._registry.header_converter if header else self._registry.converter
        cls = find(wanted)
        if cls is None:
            raise ConfigInvalid([invalid(name, wanted, f"Class {wanted} could not be found.")])
        settings = {
            **under(chosen, f"{name}."),
            _CONVERTER_TYPE: name.partition(".")[0],
        }
        return ConverterPlan(cls, cls.plugin.config.parse(settings))

    def _transform(self, alias: str, props: Props) -> TransformPlan:
        """One transform of the chain. Its settings are valid: `enrich` has checked them."""
        own = under(props, f"{keys.TRANSFORMS.name}.{alias}.")
        cls = self._registry.transform(own["type"].strip())
        assert cls is not None
        predicate: tuple[type[Predicate], Config] | None = None
        if name := own.get("predicate"):
            theirs = under(props, f"{keys.PREDICATES.name}.{name}.")
            kind = self._registry.predicate(theirs["type"].strip())
            assert kind is not None
            predicate = kind, kind.plugin.config.parse(theirs)
        negate = own.get("negate", "false").strip().lower() == "true"
        return TransformPlan(alias, cls, cls.plugin.config.parse(own), predicate, negate)

    def _transactions(self, framework: Config) -> Transactions:
        interval = framework[keys.TRANSACTION_INTERVAL]
        return Transactions(
            Boundary(framework[keys.TRANSACTION_BOUNDARY].lower()),
            self._worker[worker_keys.OFFSET_FLUSH_INTERVAL] if interval is None else interval,
            framework[keys.OFFSETS_TOPIC] or self._worker[worker_keys.OFFSET_STORAGE_TOPIC],
        )

    def _dead_letters(self, task: TaskId, props: Props) -> DeadLetters | None:
        """Where failed records go. The settings are a sink's; sources may have them too."""
        settings = ConfigDef(keys.DLQ_TOPIC, keys.DLQ_REPLICATION, keys.DLQ_HEADERS).parse(props)
        topic = settings[keys.DLQ_TOPIC].strip()
        if not topic:
            return None
        java = {
            **_PRODUCER,
            "client.id": f"connector-dlq-producer-{task}",
            **self._client("producer", props),
        }
        admin = {
            "client.id": f"connector-dlq-adminclient-{task}",
            **self._client("admin", props),
        }
        return DeadLetters(
            topic,
            settings[keys.DLQ_REPLICATION],
            settings[keys.DLQ_HEADERS],
            clients.producer(java).settings,
            clients.admin(admin).settings,
        )

    def _client(self, client: str, props: Props) -> dict[str, str]:
        return {
            "bootstrap.servers": ",".join(self._worker[worker_keys.BOOTSTRAP_SERVERS]),
            **self._worker.under(f"{client}."),
            **under(props, f"{client}.override."),
        }

    def _producer(
        self, task: TaskId, props: Props, *, exactly_once: bool
    ) -> clients.ClientSettings:
        java = {**_PRODUCER, **self._client("producer", props)}
        java.setdefault("client.id", f"connector-producer-{task}")
        if exactly_once:
            java["transactional.id"] = worker_config.transactional_id(self._worker, task)
            java["enable.idempotence"] = "true"
            if java["delivery.timeout.ms"] == _PRODUCER["delivery.timeout.ms"]:
                del java["delivery.timeout.ms"]  # in a transaction its time-out applies
        translated = clients.producer(java)
        _say_ignored(task, translated)
        settings = translated.settings
        strict = str(settings["acks"]) in ("all", "-1")
        settings.setdefault("enable.idempotence", strict)
        settings.setdefault("queue.buffering.max.messages", 500_000)
        settings.setdefault("queue.buffering.max.kbytes", 131_072)
        if "transaction.timeout.ms" in settings:  # librdkafka refuses a longer time-out inside it
            most = int(settings["transaction.timeout.ms"])
            settings["socket.timeout.ms"] = min(60_000, most)
        return settings

    def _topic_groups(self, props: Props) -> tuple[TopicGroup, ...]:
        if not self._creates_topics() or not topic_creation.uses_topic_creation(props):
            return ()
        framework = topic_creation.with_topic_creation(ConfigDef(), props).parse(props)
        groups: list[TopicGroup] = []
        for name in topic_creation.topic_creation_groups(props):
            include, exclude, replication, partitions = (
                framework[key] for key in _group_keys(name)
            )
            everything = name == topic_creation.DEFAULT_GROUP
            groups.append(
                TopicGroup(
                    (".*",) if everything else tuple(include),
                    () if everything else tuple(exclude),
                    partitions,
                    replication,
                    topic_creation.topic_group_settings(name, props),
                )
            )
        return tuple(groups)


def _lag_client(task: TaskId, java: Mapping[str, str]) -> clients.ClientSettings | None:
    """Client settings for looking up a sink's lag. With settings that only Java's consumer takes,
    such as a JKS store, the lag is unknown; the task runs."""
    try:
        return clients.admin(java).settings
    except ConfigInvalid as error:
        log.warning("cannot look up the lag of %s: %s", task, error)
        return None


def _group_client(java: Mapping[str, str]) -> dict[str, object] | None:
    """Client settings for removing a group member; None where kafka-python cannot connect."""
    try:
        return clients.member(java)
    except ConfigInvalid:
        return None


def _reloads(props: RawProps) -> bool:
    """Whether an expired secret restarts the connector (kafka-connect.md §13.4)."""
    action = props.get(keys.CONFIG_RELOAD.name)
    return action is None or action.strip().lower() == "restart"


def _held_ms(made: Transformed) -> int | None:
    return made.ttl_ms if _reloads(made.props) else None


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
        seen = value["value"] if value["value"] in (None, HIDDEN) else raw
        return {**info, "value": {**value, "value": seen, "errors": errors}}

    return {**infos, "configs": [shown(info) for info in infos["configs"]]}


def _is_exact(connector: SourceConnector, config: Config) -> bool | None:
    return connector.exactly_once(config)


def _ends_transactions(connector: SourceConnector, config: Config) -> bool:
    return connector.defines_transactions(config)


def _dead_letter_topic(props: Mapping[str, str | None]) -> bool:
    return bool((props.get(keys.DLQ_TOPIC.name) or "").strip())


def shown_value(value: str | None) -> str:
    """A value as Java prints it inside a map."""
    return "null" if value is None else value


def _restart_part(name: str, props: Mapping[str, str | None]) -> Iterable[render.Json]:
    """The validation of `penstock.restart.*`; empty if none is set."""
    own = ConfigDef(*(key for key in RESTART.keys if key.name in props))
    if own.keys:
        yield render.config_infos(name, [own], own.validate(props))


def _base(found: Found) -> ConfigDef:
    return connector_rules.SOURCE if found.kind is Kind.SOURCE else connector_rules.SINK


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
    4.2.0."""
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
            replace(key, default=REQUIRED) if key.name == _CONVERTER_TYPE else key
            for key in definition.keys
        ),
        rules=definition.rules,
    )


def _as_stored(task: Props, planned: int) -> Props:
    """A task's configuration in a Java worker's order: a copy of the connector's HashMap with the
    runtime's settings added, copied once more."""
    own = hash_map_copy(hash_map_order(list(task)[:planned]))
    whole = hash_map_order([*own, *task], copy_buckets(planned))
    return {name: task[name] for name in hash_map_copy(whole)}


def _group_keys(group: str) -> tuple[Key[Any], ...]:
    inherited: dict[str, object] | None = None if group == topic_creation.DEFAULT_GROUP else {}
    return topic_creation.topic_group_keys(group, inherited)


def _blamed(
    values: Sequence[ConfigValue], problems: Iterable[tuple[str, str]]
) -> list[ConfigValue]:
    """The values with further problems, also of undeclared settings."""
    return _with_findings(values, (Finding(name, text) for name, text in problems))


def _with_findings(values: Sequence[ConfigValue], findings: Iterable[Finding]) -> list[ConfigValue]:
    """The values with the findings of `validate_live`."""
    by_name = {value.name: value for value in values}
    for each in findings:
        value = by_name.get(each.setting, ConfigValue(each.setting))
        if each.recommended is not None:
            value = replace(value, recommended=tuple(each.recommended))
        by_name[each.setting] = value if each.error is None else value.with_error(each.error)
    return list(by_name.values())


def _looked(connector: Connector, config: Config) -> list[Finding]:
    """The findings of `validate_live` within `_LIVE_S`."""
    found: list[Finding] = []
    failed: list[BaseException] = []

    def gather() -> None:
        try:
            for finding in connector.validate_live(config):
                found.append(finding)  # noqa: PERF402 - each counts, whatever comes after it
        except BaseException as error:
            failed.append(error)

    # A plugin's code, which may block for ever.
    thread = threading.Thread(target=gather, name="validate-live", daemon=True)
    thread.start()
    thread.join(_LIVE_S)
    said, definition = list(found), connector.plugin.config
    if thread.is_alive():
        text = f"The connector did not finish checking its system within {_LIVE_S:g} s."
        return [*said, Finding(keys.CONNECTOR_CLASS.name, text)]
    for error in failed:
        if not isinstance(error, PenstockError):
            raise error
        texts = error.problems if isinstance(error, ConfigInvalid) else (str(error),)
        said += [Finding(_named_in(text, definition), text) for text in texts]
    return said


def _named_in(text: str, definition: ConfigDef) -> str:
    """The setting that a message names, by the longest match; else `connector.class`."""
    names = sorted((key.name for key in definition.keys), key=len, reverse=True)
    named = (name for name in names if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text))
    return next(named, keys.CONNECTOR_CLASS.name)


def _texts(config: RawProps) -> dict[str, str]:
    return {name: text for name, text in config.items() if text is not None}


def _say_ignored(task: TaskId, translated: clients.Translated) -> None:
    if translated.ignored:
        log.info("client settings that have no effect: %s", ", ".join(translated.ignored))
