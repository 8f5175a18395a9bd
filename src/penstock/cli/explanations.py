"""What every setting and metric means, from what workers use."""

from __future__ import annotations

import difflib
import inspect
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.cli.exits import NotThere
from penstock.config import connector, worker_keys
from penstock.config.define import ConfigDef
from penstock.config.render import help_text, markdown
from penstock.plugins.registry import InstalledPlugin, PluginClass, PluginKind, Registry
from penstock.runtime.metric_table import SECTIONS, Metric
from penstock.runtime.providers import BUILT_IN as BUILT_IN_PROVIDERS

_TITLES: Final[Mapping[str, str]] = {
    "worker": "Workers of a cluster",
    "standalone": "Standalone workers",
    "source": "Source connectors",
    "sink": "Sink connectors",
}
_KINDS: Final[Mapping[PluginKind, str]] = {
    PluginKind.SOURCE: "Source connector",
    PluginKind.SINK: "Sink connector",
    PluginKind.CONVERTER: "Converter",
    PluginKind.HEADER_CONVERTER: "Header converter",
    PluginKind.TRANSFORM: "Transform",
    PluginKind.PREDICATE: "Predicate",
    PluginKind.CONFIG_PROVIDER: "Config provider",
    PluginKind.PRODUCER_INTERCEPTOR: "Producer interceptor",
    PluginKind.CONSUMER_INTERCEPTOR: "Consumer interceptor",
}
_ELSEWHERE: Final = frozenset({PluginKind.TRANSFORM, PluginKind.PREDICATE})  # docs/transforms.md

_INTRODUCTION: Final = """\
# Settings

All settings that penstock reads, generated from their declarations: a page for each family of
plugins. `penstock explain` shows the same in a terminal: for one subject
(`penstock explain worker`), one plugin (`penstock explain FileStreamSource`) or one setting
(`penstock explain tasks.max`). `make docs` rewrites these pages. Transforms and predicates have
[a page of their own](transforms.md).

Names, types, defaults and what is valid are Kafka Connect's, unless a setting begins with
`penstock.` or `spark.`. A worker's settings that begin with `producer.`, `consumer.` or `admin.`,
and a connector's that begin with `producer.override.`, `consumer.override.` or `admin.override.`,
configure Kafka's clients, with the names of the Java clients' settings. Of these,
`interceptor.classes` names [interceptors](interceptors.md), which read their settings from there.
"""
_PAGES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "workers": ("Workers", ()),
    "connectors": ("All connectors", ()),
    "jdbc": ("JDBC", ("connectors.jdbc",)),
    "files": ("Files and object stores", ("connectors.files", "connectors.file")),
    "mongodb": ("MongoDB", ("connectors.mongodb",)),
    "elasticsearch": ("Elasticsearch and OpenSearch", ("connectors.search",)),
    "cassandra": ("Cassandra", ("connectors.cassandra",)),
    "couchbase": ("Couchbase", ("connectors.couchbase",)),
    "redis": ("Redis", ("connectors.redis",)),
    "http": ("HTTP", ("connectors.http",)),
    "mqtt": ("MQTT", ("connectors.mqtt",)),
    "testing": ("Generator and black hole", ("connectors.generator", "connectors.blackhole")),
    "converters": ("Converters", ("convert",)),
    "schema-registry": ("Converters with a Schema Registry", ("schema_registry",)),
    "providers": ("Config providers", ("runtime.providers",)),
    "interceptors": ("Interceptors", ("interceptors",)),
}
"""The pages of settings: title, and the modules of the plugins on it."""
_GENERAL: Final = {
    "worker": "workers",
    "standalone": "workers",
    "source": "connectors",
    "sink": "connectors",
}


METRICS: Final = "metrics"
_METRICS_INTRODUCTION: Final = """\
# Metrics

The metrics of `GET /metrics`, in Prometheus' text format, generated from the table that workers
use. `penstock explain metrics` lists them in a terminal, `penstock explain NAME` shows one.
`make docs` rewrites this page. [Operating](operating.md#metrics) says what they cover.

The metrics of the group's client have the names that Kafka Connect gives them
(`kafka_connect_coordinator_heartbeat_rate`); [interceptors](interceptors.md) add their own.
"""


@dataclass(frozen=True, slots=True)
class ExplainedSubject:
    """Something that has settings: its names, its kind and description, and its settings."""

    names: tuple[str, ...]
    title: str
    about: str
    definition: ConfigDef
    page: str | None
    """The page with its settings; None: that of transforms, or none, as it is not penstock's."""


def subjects(registry: Registry) -> list[ExplainedSubject]:
    """Everything that can be explained: workers and connectors in general, then the plugins."""
    definitions = {
        "worker": worker_keys.DISTRIBUTED,
        "standalone": worker_keys.STANDALONE,
        "source": connector.SOURCE,
        "sink": connector.SINK,
    }
    return [
        *(
            ExplainedSubject((name,), _TITLES[name], "", definition, _GENERAL[name])
            for name, definition in definitions.items()
        ),
        *(
            _of_plugin(kind, cls)
            for kind in _KINDS
            for cls in [
                *(BUILT_IN_PROVIDERS if kind is PluginKind.CONFIG_PROVIDER else ()),
                *(entry.cls for entry in registry.of_kind(kind)),
            ]
        ),
    ]


def _of_plugin(kind: PluginKind, cls: PluginClass) -> ExplainedSubject:
    entry = InstalledPlugin(kind, cls, cls.plugin)
    names = (entry.plugin.class_name, *sorted(entry.names() - {entry.plugin.class_name}))
    about = " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())
    return ExplainedSubject(names, _KINDS[kind], about, entry.plugin.config, _page_of(kind, cls))


def _page_of(kind: PluginKind, cls: PluginClass) -> str | None:
    module = f"{cls.__module__.removeprefix('penstock.')}."
    pages = (
        page
        for page, (_, packages) in _PAGES.items()
        if any(module.startswith(f"{package}.") for package in packages)
    )
    return None if kind in _ELSEWHERE else next(pages, None)


def pages(registry: Registry) -> dict[str, str]:
    """The generated pages of the documentation, by path: settings, an index of them, metrics."""
    by_page: dict[str, list[ExplainedSubject]] = {page: [] for page in _PAGES}
    for subject in subjects(registry):
        if subject.page is not None:
            by_page[subject.page].append(subject)
    index = [_INTRODUCTION, "| Page | Settings of |\n| --- | --- |"]
    made = {"metrics.md": _metrics_page()}
    for page, listed in by_page.items():
        title = _PAGES[page][0]
        names = dict.fromkeys(_heading(subject) for subject in listed)
        index.append(f"| [{title}](settings/{page}.md) | {', '.join(names)} |")
        made[f"settings/{page}.md"] = _settings_page(title, listed)
    made["settings.md"] = index[0] + "\n" + "\n".join(index[1:]) + "\n"
    return made


def _heading(subject: ExplainedSubject) -> str:
    name = subject.names[0]
    return subject.title if name in _TITLES else f"`{name.rpartition('.')[2]}`"


def _settings_page(title: str, listed: Sequence[ExplainedSubject]) -> str:
    parts = [f"# Settings: {title}\n"]
    for subject in listed:
        name = subject.names[0]
        if name in _TITLES:
            parts.append(f"## {subject.title}\n")
        else:
            parts.append(f"## {subject.title}: {name.rpartition('.')[2]}\n\n`{name}`\n")
        if subject.about:
            parts.append(f"{subject.about}\n")
        parts.append(markdown(subject.definition) if subject.definition.keys else "No settings.\n")
    return "\n".join(parts)


def _metrics_page() -> str:
    """The page of the documentation with all metrics."""
    parts = [_METRICS_INTRODUCTION]
    for section in SECTIONS:
        rows = [
            f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |"
            for metric in section.metrics
        ]
        head = "| Metric | Type | Labels | Meaning |\n| --- | --- | --- | --- |"
        parts.append(f"## {section.title}\n")
        parts.append("\n".join([head, *rows, ""]))
    return "\n".join(parts)


def _metric_lines(metric: Metric) -> Iterator[str]:
    labels = f"{{{', '.join(metric.labels)}}}" if metric.labels else ""
    yield f"{metric.name}{labels}  ({metric.kind})"
    yield f"    {metric.help}"


def explanation(what: str, plugins: Callable[[], Registry]) -> str:
    """What a subject, plugin, setting or metric means; `metrics`: all metrics. Raises NotThere."""
    if what == METRICS:
        metrics = (metric for section in SECTIONS for metric in section.metrics)
        lines = [line for metric in metrics for line in _metric_lines(metric)]
    else:
        lines = list(_explained(what, subjects(plugins())))
    return "\n".join(lines) + "\n"


def contents(registry: Registry) -> Iterator[str]:
    """A line for everything that can be explained."""
    for subject in subjects(registry):
        yield f"{subject.names[0]:<70} {subject.title}"
    yield f"{METRICS:<70} Metrics"


def _explained(what: str, known: Sequence[ExplainedSubject]) -> Iterator[str]:
    width = min(100, shutil.get_terminal_size().columns)
    matching = [subject for subject in known if what in subject.names]
    if matching:
        for subject in matching:
            yield f"{subject.names[0]}  ({subject.title})"
            if len(subject.names) > 1:
                yield f"also {', '.join(subject.names[1:])}"
            yield from filter(None, (subject.about, ""))
            yield help_text(subject.definition, width) or "It has no settings."
        return
    by_text: dict[str, list[ExplainedSubject]] = {}
    for subject in known:
        for key in subject.definition.keys:
            if key.name == what:
                by_text.setdefault(help_text(ConfigDef(key), width), []).append(subject)
    by_name = {metric.name: metric for section in SECTIONS for metric in section.metrics}
    if (metric := by_name.get(what)) is not None:
        yield from _metric_lines(metric)
        return
    if not by_text:
        raise NotThere(f"Nothing is called '{what}'.", _advice(what, known))
    for text, having in by_text.items():
        yield f"{', '.join(subject.names[0] for subject in having)}:"
        yield text


def _advice(what: str, known: Iterable[ExplainedSubject]) -> str:
    names = {name for subject in known for name in subject.names}
    names |= {key.name for subject in known for key in subject.definition.keys}
    names |= {metric.name for section in SECTIONS for metric in section.metrics}
    close = difflib.get_close_matches(what, names, n=3)
    if close:
        return f"Did you mean {' or '.join(repr(name) for name in close)}?"
    return "`penstock explain` lists everything."
