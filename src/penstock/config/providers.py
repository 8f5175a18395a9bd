"""Placeholders in configurations, `${provider:path:key}` and `${provider:key}`: found, replaced by
the values of config providers, and restored (kafka-connect.md §13; KIP-297, KIP-421).

    >>> vault = {"orders": Lookup({"password": "s3cret"})}
    >>> found = transformed(
    ...     {"login": "me:${vault:orders:password}", "size": "5", "other": "${nobody:key}"},
    ...     {"vault": lambda path, keys: vault[path]},
    ... )
    >>> found.props
    {'login': 'me:s3cret', 'size': '5', 'other': '${nobody:key}'}
    >>> restored({"login": "me:${vault:orders:password}"}, {"login": "me:s3cret", "task": "0"})
    {'login': 'me:${vault:orders:password}', 'task': '0'}

One pass: placeholders in a provider's values are not replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from penstock.errors import PenstockError

# Provider up to the first colon; then a path, if another colon follows; then the key.
_PLACEHOLDER: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")

Text = TypeVar("Text", str, str | None)


class ProviderFailed(PenstockError):
    """A config provider failed."""

    java_name = "org.apache.kafka.common.config.ConfigException"


@dataclass(frozen=True, slots=True)
class Lookup:
    """A provider's values of the requested keys, without unknown ones.

    `ttl_ms`: how long they are valid from now; None: without limit.
    """

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    ttl_ms: int | None = None


Ask = Callable[[str, frozenset[str]], Lookup]
"""A provider: looks up keys at a path, which may be empty."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A placeholder: provider, path and key."""

    provider: str
    path: str
    key: str

    def __str__(self) -> str:
        path = f"{self.path}:" if self.path else ""
        return f"${{{self.provider}:{path}{self.key}}}"


@dataclass(frozen=True, slots=True)
class Transformed:
    """A configuration with its placeholders replaced.

    `secrets` are the values from providers; `ttl_ms` is their shortest TTL. `unresolved` are the
    placeholders, by setting, for which a provider of the worker has no value.
    """

    props: dict[str, str | None] = field(repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    ttl_ms: int | None = None
    unresolved: Mapping[str, tuple[Placeholder, ...]] = field(default_factory=dict)

    def explain(self, name: str) -> str | None:
        """What is unresolved in a setting; None if nothing is."""
        missing = self.unresolved.get(name)
        if not missing:
            return None
        texts = (f"config provider '{each.provider}' has no value for {each}" for each in missing)
        return "; ".join(dict.fromkeys(texts))


def placeholders(text: str) -> list[Placeholder]:
    """Every placeholder in a text, resolvable or not."""
    return [_placeholder(match) for match in _PLACEHOLDER.finditer(text)]


def transformed(config: Mapping[str, str | None], providers: Mapping[str, Ask]) -> Transformed:
    """The configuration with all placeholders replaced that a provider has a value for. Each
    provider is called once per path. Raises ProviderFailed, naming the settings, when one fails."""
    requests: dict[tuple[str, str], dict[str, None]] = {}
    for text in config.values():
        for placeholder in placeholders(text or ""):
            if placeholder.provider in providers:
                requests.setdefault((placeholder.provider, placeholder.path), {})[
                    placeholder.key
                ] = None
    lookups = {
        (provider, path): _look_up(config, provider, providers[provider], path, frozenset(keys))
        for (provider, path), keys in requests.items()
    }
    used: set[str] = set()

    def value(match: re.Match[str]) -> str:
        placeholder = _placeholder(match)
        lookup = lookups.get((placeholder.provider, placeholder.path))
        text = lookup.values.get(placeholder.key) if lookup is not None else None
        if text is None:
            return match[0]
        used.add(text)
        return text

    props = {
        name: None if text is None else _PLACEHOLDER.sub(value, text)
        for name, text in config.items()
    }
    # KIP-297: a negative TTL is none.
    ttls = [
        lookup.ttl_ms
        for lookup in lookups.values()
        if lookup.ttl_ms is not None and lookup.ttl_ms >= 0
    ]
    unresolved = {
        name: missing
        for name, text in config.items()
        if (missing := tuple(each for each in placeholders(text or "") if _missing(each, lookups)))
    }
    return Transformed(props, frozenset(used - {""}), min(ttls, default=None), unresolved)


def _missing(placeholder: Placeholder, lookups: Mapping[tuple[str, str], Lookup]) -> bool:
    lookup = lookups.get((placeholder.provider, placeholder.path))
    return lookup is not None and placeholder.key not in lookup.values


def _look_up(
    config: Mapping[str, str | None], provider: str, ask: Ask, path: str, keys: frozenset[str]
) -> Lookup:
    try:
        return ask(path, keys)
    except Exception as error:
        found = {
            name: str(each)
            for name, text in config.items()
            for each in placeholders(text or "")
            if (each.provider, each.path) == (provider, path)
        }
        settings = ", ".join(f"{text} in '{name}'" for name, text in found.items())
        failed = isinstance(error, ProviderFailed)
        reason = str(error) if failed else f"{type(error).__name__}: {error}"
        text = f"{reason} (config provider '{provider}': {settings})"
        raise ProviderFailed(text) from (None if failed else error)


def restored(raw: Mapping[str, str | None], task: Mapping[str, Text]) -> dict[str, Text | str]:
    """A task's configuration as it is stored: with the connector's placeholders restored
    (kafka-connect.md §3.4)."""
    return {
        name: text if (own := raw.get(name)) is None or not placeholders(own) else own
        for name, text in task.items()
    }


def masked(text: str, secrets: Iterable[str], mask: str) -> str:
    """The text without the secrets, plain or quoted by Python.

    Very short ones stay: a trace without every 1 in it would be unreadable.
    """
    spelled = {part for secret in secrets for part in (secret, repr(secret)[1:-1])}
    for secret in sorted(spelled, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, mask)
    return text


_SHORTEST: Final = 4


def _placeholder(match: re.Match[str]) -> Placeholder:
    return Placeholder(match[1], match[3] or "", match[4])
