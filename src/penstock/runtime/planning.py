"""From a connector's configuration to its tasks: task configurations and flow plans.

Combines the worker's settings with a connector's: which converter applies, with which settings
(kafka-connect.md §3.1). `validation` checks them, `task_clients` has the Kafka clients.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from penstock.api import (
    Connector,
    ConnectorContext,
    SinkConnector,
    SourceConnector,
)
from penstock.cluster.records import RawProps
from penstock.cluster.recovery import NO_RESTARTS, Causes, RestartPolicy
from penstock.config import connector_keys as keys
from penstock.config import render, restart, topic_creation, worker_keys
from penstock.config import worker as worker_config
from penstock.config.define import (
    HIDDEN,
    PASSWORD,
    Config,
    ConfigDef,
    Key,
    Props,
    invalid,
    under,
)
from penstock.config.providers import Transformed, masked, restored
from penstock.config.restart import RESTART, restart_settings
from penstock.data.java_maps import copy_buckets, hash_map_copy, hash_map_order
from penstock.errors import ConfigInvalid, PenstockError
from penstock.flow.plan import (
    Boundary,
    Conversion,
    ConverterPlan,
    FlowPlan,
    PredicatePlan,
    SinkPlan,
    SourcePlan,
    Tolerance,
    TopicGroup,
    Transactions,
    TransformPlan,
)
from penstock.ids import TaskId
from penstock.plugins.ref import PluginRef
from penstock.plugins.registry import PluginKind, Registry
from penstock.runtime import interceptors
from penstock.runtime.instances import Instance, stop
from penstock.runtime.providers import Providers
from penstock.runtime.task_clients import TaskClients, group_client, lag_client, sink_consumer
from penstock.runtime.validation import CONVERTER_TYPE, Validator

log = logging.getLogger(__name__)


class TooManyTasks(PenstockError):
    """A connector generated more tasks than `tasks.max` (kafka-connect.md §3.1)."""


def _no_reloads(target: str | TaskId, ms: int | None) -> None:
    """Restarts nothing when a secret expires."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A connector's task configurations as stored (kafka-connect.md §3.4), the milliseconds until
    they are generated again (None: only on request), and the instance that generated them."""

    configs: Sequence[Props]
    again_ms: int | None
    connector: Instance


class Planner:
    """Plans for one worker, from its settings and plugins."""

    def __init__(
        self,
        worker: Config,
        registry: Registry,
        holds: Callable[[str | TaskId, int | None], None] = _no_reloads,
        java: Callable[[RawProps], render.Json] | None = None,
    ) -> None:
        """`holds` is called whenever a connector or task starts, with the TTL of its configuration
        in milliseconds; None: no TTL. `java` validates a resolved configuration of a connector that
        is written in Java."""
        self._worker = worker
        self._registry = registry
        self._holds = holds
        self.providers = Providers(worker.props, registry)
        self.providers.remember(worker.secrets())
        self.providers.remember(_client_secrets(worker.props))
        self._validator = Validator(worker, registry, self.providers, java)
        self._clients = TaskClients(worker)

    def validate(self, props: Mapping[str, str | None]) -> render.Json:
        """See `Validator.validate`."""
        return self._validator.validate(props)

    def resolved(self, config: RawProps) -> RawProps:
        """A connector's configuration with its placeholders resolved (kafka-connect.md §13).
        Raises ProviderFailed."""
        return self.providers.transformed(config).props

    def resolved_for_java(
        self, target: str | TaskId, configs: Sequence[RawProps]
    ) -> Sequence[RawProps]:
        """The resolved configurations of a connector or task that starts in the Java host; the
        connector's is the first. Redacts their secrets from now on. Raises ProviderFailed."""
        transformed = [self.providers.transformed(config) for config in configs]
        ttls_ms = [each.ttl_ms for each in transformed if each.ttl_ms is not None]
        reloads = _reloads(transformed[0].props)
        self._holds(target, min(ttls_ms, default=None) if reloads else None)
        entry = self._registry.find_connector_of(configs[0])
        assert entry is not None, "the caller has found it"
        passwords = [key.name for key in entry.plugin.config.keys if key.kind is PASSWORD]
        for each in transformed:
            texts = _texts(each.props)
            self.providers.remember([texts[name] for name in passwords if texts.get(name)])
            self.providers.remember(_client_secrets(texts))
        return [each.props for each in transformed]

    def without_secrets(self, text: str, props: Mapping[str, str | None]) -> str:
        """A text without the values that config providers have returned, and without the passwords
        of a connector's configuration."""
        entry = self._registry.find_connector_of(props)
        settings = entry.plugin.config.keys if entry is not None else ()
        secrets = [
            value for key in settings if key.kind is PASSWORD and (value := props.get(key.name))
        ]
        return masked(self.providers.masked(text), secrets, HIDDEN)

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
        transformed = self.providers.transformed(config)
        self._holds(name, _reload_ms(transformed))
        props = _texts(transformed.props)
        entry = self._validator.connector_entry(props)
        with _explaining(transformed):
            framework = self._validator.framework(entry, props).parse(props)
            own = entry.plugin.config.parse(props)
        self._remember(props, framework, own)
        assert issubclass(entry.cls, Connector)
        most = framework[keys.TASKS_MAX]
        connector = running or entry.cls()
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
        task_class = entry.plugin.task_class or entry.plugin.class_name
        added = {"task.class": task_class}
        for key in (keys.TOPICS, keys.TOPICS_REGEX):
            if entry.kind is PluginKind.SINK and props.get(key.name):
                added[key.name] = props[key.name]
        configs = [restored(config, _as_stored({**task, **added}, len(task))) for task in planned]
        again_ms = connector.replan_ms(own) if isinstance(connector, SourceConnector) else None
        return Planned(configs, again_ms, connector)

    def flow(
        self, task: TaskId, run: int, connector_config: RawProps, task_config: RawProps
    ) -> FlowPlan:
        """The flow plan of one task. Raises the error that makes the task fail to start."""
        transformed = self.providers.transformed(connector_config)
        own_made = self.providers.transformed(task_config)
        ttls_ms = [
            ttl_ms for ttl_ms in (_reload_ms(transformed), own_made.ttl_ms) if ttl_ms is not None
        ]
        self._holds(task, min(ttls_ms, default=None) if _reloads(transformed.props) else None)
        props = _texts(transformed.props)
        entry = self._validator.connector_entry(props)
        with _explaining(transformed, own_made):
            framework = self._validator.framework(entry, props).parse(props)
            own = entry.plugin.config.parse(_texts(own_made.props))
        self._remember(props, framework, own)
        conversion = Conversion(
            key=self._converter(props, keys.KEY_CONVERTER.name),
            value=self._converter(props, keys.VALUE_CONVERTER.name),
            header=self._converter(props, keys.HEADER_CONVERTER.name),
            transforms=tuple(self._transform(alias, props) for alias in framework[keys.TRANSFORMS]),
        )
        self._remember(
            props,
            *(each.config for each in (conversion.key, conversion.value, conversion.header)),
            *(transform.config for transform in conversion.transforms),
        )
        tolerance = Tolerance(
            tolerate_all=framework[keys.ERRORS_TOLERANCE].lower() == "all",
            log=framework[keys.ERRORS_LOG_ENABLE],
            log_messages=framework[keys.ERRORS_LOG_MESSAGES],
            retry_timeout_ms=framework[keys.ERRORS_RETRY_TIMEOUT],
            retry_delay_max_ms=framework[keys.ERRORS_RETRY_MAX_DELAY],
            dead_letters=self._clients.dead_letters(task, props),
        )
        if issubclass(entry.cls, SourceConnector):
            transactions = (
                self._transactions(framework) if worker_config.exactly_once(self._worker) else None
            )
            groups = _topic_groups(props) if self._validator.creates_topics() else ()
            return SourcePlan(
                task=task,
                run=run,
                connector=PluginRef.of(entry.cls),
                config=own,
                conversion=conversion,
                tolerance=tolerance,
                producer=self._clients.producer(task, props, exactly_once=transactions is not None),
                limits=self._clients.limits(props),
                topic_groups=groups,
                admin=self._clients.topics(task, props) if groups else {},
                transactions=transactions,
                interceptors=interceptors.plans(
                    self._registry, "producer", self._clients.client("producer", props)
                ),
            )
        assert issubclass(entry.cls, SinkConnector)
        pattern = framework[keys.TOPICS_REGEX] or None
        client_settings = self._clients.client("consumer", props)
        return SinkPlan(
            task=task,
            run=run,
            connector=PluginRef.of(entry.cls),
            config=own,
            conversion=conversion,
            tolerance=tolerance,
            topics=framework[keys.TOPICS],
            topics_regex=pattern,
            consumer=sink_consumer(
                task,
                client_settings,
                shared=framework[keys.TASKS_MAX] > 1,
                pattern=pattern is not None,
            ),
            admin=lag_client(task, client_settings),
            group_admin=group_client(client_settings),
            commit_interval_ms=self._worker[worker_keys.OFFSET_FLUSH_INTERVAL],
            interceptors=interceptors.plans(self._registry, "consumer", client_settings),
        )

    def _remember(self, props: Props, *configs: Config) -> None:
        """Redacts the secrets of a connector in messages, logs and traces."""
        for config in configs:
            self.providers.remember(config.secrets())
        self.providers.remember(_client_secrets(props))

    def _converter(self, props: Props, name: str) -> ConverterPlan:
        """The connector's settings if it sets the class, else the worker's; they are not merged
        (kafka-connect.md §3.1)."""
        chosen = props if props.get(name) else self._worker.props
        class_name = (chosen.get(name) or self._worker[worker_keys.HEADER_CONVERTER]).strip()
        header = name == keys.HEADER_CONVERTER.name
        find = self._registry.header_converter if header else self._registry.converter
        cls = find(class_name)
        if cls is None:
            raise ConfigInvalid(
                [invalid(name, class_name, f"Class {class_name} could not be found.")]
            )
        settings = {
            **under(chosen, f"{name}."),
            CONVERTER_TYPE: name.partition(".")[0],
        }
        return ConverterPlan(PluginRef.of(cls), cls.plugin.config.parse(settings))

    def _transform(self, alias: str, props: Props) -> TransformPlan:
        """One transform of the chain. Its settings are valid: `enrich` has checked them."""
        own = under(props, f"{keys.TRANSFORMS.name}.{alias}.")
        cls = self._registry.transform(own["type"].strip())
        assert cls is not None
        predicate: PredicatePlan | None = None
        if name := own.get("predicate"):
            theirs = under(props, f"{keys.PREDICATES.name}.{name}.")
            kind = self._registry.predicate(theirs["type"].strip())
            assert kind is not None
            predicate = PredicatePlan(PluginRef.of(kind), kind.plugin.config.parse(theirs))
        negate = own.get("negate", "false").strip().lower() == "true"
        return TransformPlan(
            alias, PluginRef.of(cls), cls.plugin.config.parse(own), predicate, negate
        )

    def _transactions(self, framework: Config) -> Transactions:
        interval = framework[keys.TRANSACTION_INTERVAL]
        return Transactions(
            Boundary(framework[keys.TRANSACTION_BOUNDARY].lower()),
            self._worker[worker_keys.OFFSET_FLUSH_INTERVAL] if interval is None else interval,
            framework[keys.OFFSETS_TOPIC] or self._worker[worker_keys.OFFSET_STORAGE_TOPIC],
        )


def _topic_groups(props: Props) -> tuple[TopicGroup, ...]:
    """The groups of `topic.creation.*`, in order; none if the connector does not set them."""
    if not topic_creation.uses_topic_creation(props):
        return ()
    framework = topic_creation.with_topic_creation(ConfigDef(), props).parse(props)
    groups: list[TopicGroup] = []
    for name in topic_creation.topic_creation_groups(props):
        include, exclude, replication, partitions = (framework[key] for key in _group_keys(name))
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


_CLIENT_SECRETS: Final = (
    "sasl.jaas.config",
    *(key.name for key in worker_keys.SSL if key.kind is PASSWORD),
)


def _client_secrets(props: Props) -> list[str]:
    """The secrets among settings of Kafka clients, with any prefix."""
    return [text for name, text in props.items() if text and name.endswith(_CLIENT_SECRETS)]


@contextmanager
def _explaining(*resolved: Transformed) -> Iterator[None]:
    """Reports the placeholders that have no value, in the log, and in the error about an invalid
    configuration: as in Kafka Connect, they stay in the settings."""
    missing: dict[str, str] = {}
    for transformed in resolved:
        for name in transformed.unresolved:
            missing.setdefault(name, f"configuration {name}: {transformed.explain(name)}")
    if missing:
        log.warning("placeholders are not resolved: %s", "; ".join(missing.values()))
    try:
        yield
    except ConfigInvalid as error:
        if not missing:
            raise
        more = [f"Placeholder in {text}" for text in missing.values()]
        raise ConfigInvalid([*error.problems, *more]) from error


def _reloads(props: RawProps) -> bool:
    """Whether an expired secret restarts the connector (kafka-connect.md §13.4)."""
    action = props.get(keys.CONFIG_RELOAD.name)
    return action is None or action.strip().lower() == "restart"


def _reload_ms(transformed: Transformed) -> int | None:
    return transformed.ttl_ms if _reloads(transformed.props) else None


def _as_stored(task: Props, planned: int) -> Props:
    """A task's configuration in a Java worker's order: a copy of the connector's HashMap with the
    runtime's settings added, copied again."""
    own = hash_map_copy(hash_map_order(list(task)[:planned]))
    ordered = hash_map_order([*own, *task], copy_buckets(planned))
    return {name: task[name] for name in hash_map_copy(ordered)}


def _group_keys(group: str) -> tuple[Key[Any], ...]:
    inherited: dict[str, object] | None = None if group == topic_creation.DEFAULT_GROUP else {}
    return topic_creation.topic_group_keys(group, inherited)


def _texts(config: RawProps) -> dict[str, str]:
    return {name: text for name, text in config.items() if text is not None}
