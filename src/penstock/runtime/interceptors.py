"""The interceptors that a client's settings name.

They are penstock plugins: classes of Java's clients do not run here, and validation refuses their
names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from penstock.api import ConsumerInterceptor, ProducerInterceptor
from penstock.config.declare import listing
from penstock.config.define import ConfigDef, invalid
from penstock.errors import ConfigInvalid
from penstock.flow.plan import InterceptorPlan
from penstock.plugins.ref import PluginRef
from penstock.plugins.registry import PluginKind, Registry

# fmt: off
CLASSES: Final = listing("interceptor.classes", (), "Interceptors of the client.")
# fmt: on
OWN: Final = "penstock."
"""Prefixes of settings that only interceptors read."""

_KINDS: Final = {
    "producer": PluginKind.PRODUCER_INTERCEPTOR,
    "consumer": PluginKind.CONSUMER_INTERCEPTOR,
}


def plans(
    registry: Registry, client: str, settings: Mapping[str, str]
) -> tuple[InterceptorPlan, ...]:
    """The interceptors of a `producer` or `consumer` with these settings. Raises ConfigInvalid with
    every problem."""
    refused = [text for _, text in problems(registry, client, settings)]
    if refused:
        raise ConfigInvalid(refused)
    plans: list[InterceptorPlan] = []
    for name in _names(settings):
        kind = _find(registry, client, name)
        assert kind is not None
        plans.append(InterceptorPlan(PluginRef.of(kind), kind.plugin.config.parse(settings)))
    return tuple(plans)


def problems(
    registry: Registry, client: str, settings: Mapping[str, str], prefix: str = ""
) -> Iterator[tuple[str, str]]:
    """Problems of a client's interceptors: settings, without `prefix`, and messages."""
    for name in _names(settings):
        kind = _find(registry, client, name)
        if kind is None:
            installed = ", ".join(
                entry.plugin.class_name for entry in registry.of_kind(_KINDS[client])
            )
            yield (
                CLASSES.name,
                invalid(
                    prefix + CLASSES.name,
                    name,
                    f"Class {name} could not be found. Interceptors are Python plugins here, and "
                    "classes for Java's clients do not run (docs/interceptors.md); remove it or "
                    f"replace it by a plugin. Installed are: {installed}",
                ),
            )
            continue
        missing = None if kind.plugin.extra is None else kind.plugin.extra.problem()
        if missing is not None:
            yield CLASSES.name, invalid(prefix + CLASSES.name, name, missing)
            continue
        for value in kind.plugin.config.validate(settings):
            for error in value.errors:
                yield value.name, error


def concerns(name: str) -> bool:
    """Whether only its interceptors read a client's setting."""
    return name == CLASSES.name or name.startswith(OWN)


def without(settings: Mapping[str, str]) -> dict[str, str]:
    """A client's settings without those that only its interceptors read."""
    return {name: text for name, text in settings.items() if not concerns(name)}


def _names(settings: Mapping[str, str]) -> list[str]:
    config = ConfigDef(CLASSES).parse(settings)
    return [name for name in dict.fromkeys(config[CLASSES]) if name]


def _find(
    registry: Registry, client: str, name: str
) -> type[ProducerInterceptor] | type[ConsumerInterceptor] | None:
    return (
        registry.producer_interceptor(name)
        if client == "producer"
        else registry.consumer_interceptor(name)
    )
