"""What differs between the connectors to object stores: an entry of a table for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from penstock.api import VERSION, Extra, Finding, Plugin
from penstock.api.settings import Config, ConfigDef
from penstock.connectors.files.stores.checks import Blame, Checked, findings
from penstock.connectors.files.stores.objects import ObjectClient


class _Options(Protocol):
    """Connection parameters of a store."""

    def checking(self: O) -> O:
        """The options for an interactive check: no retries, a short timeout."""


O = TypeVar("O", bound=_Options)  # noqa: E741
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Vendor(Generic[O]):
    """A kind of store."""

    client: Callable[[O], ObjectClient]
    module: str
    """The module of the vendor's client."""
    extra: Extra


@dataclass(frozen=True, slots=True)
class ObjectConnector(Generic[O, P]):
    """A sink or a source of a kind of store; `P` is the type of its plan."""

    vendor: Vendor[O]
    class_name: str
    task_class: str
    settings: ConfigDef
    options: Callable[[Config, str], O]
    """Connection parameters, from a valid configuration and the name of the connector."""
    plan: Callable[[Config], P]
    modules: Callable[[Config], Sequence[str]]
    """The modules that its formats need."""
    checked: Callable[[Config], Iterable[str]]
    """The names, or prefixes of names, with which the store is checked."""
    blame: Callable[[O], Blame]

    @property
    def plugin(self) -> Plugin:
        return Plugin(
            class_name=self.class_name,
            version=VERSION,
            config=self.settings,
            task_class=self.task_class,
            extra=self.vendor.extra,
        )

    def required_modules(self, config: Config) -> list[str]:
        """The modules that a configuration needs."""
        return [self.vendor.module, *self.modules(config)]

    def client(self, config: Config, connector: str) -> ObjectClient:
        """The client of the configured store."""
        return self.vendor.client(self.options(config, connector))

    def findings(
        self, config: Config, store: Callable[[ObjectClient], Checked]
    ) -> Iterable[Finding]:
        """What a check of the store finds."""
        options = self.options(config, config.props.get("name", ""))
        client = self.vendor.client(options.checking())
        return findings(store(client), self.checked(config), self.blame(options))
