"""The contract of config providers, which resolve placeholders in configurations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from penstock.api.plugin import Plugin
from penstock.config.define import Config
from penstock.config.providers import Lookup


class ConfigProvider(ABC):
    """Looks up secrets and other values that configurations refer to.

    A worker creates one instance for every name in `config.providers`, from the settings under
    `config.providers.NAME.param.`, and calls it whenever a connector or task starts or is
    validated, possibly in several threads.

        class Vault(ConfigProvider):
            plugin = Plugin("org.example.Vault", "1.0", ConfigDef(ADDRESS))

            def get(self, path: str, keys: frozenset[str]) -> Lookup:
                secret = read(self.config[ADDRESS], path)
                return Lookup({key: secret[key] for key in keys & secret.keys()}, ttl_ms=3_600_000)
    """

    plugin: ClassVar[Plugin]

    def __init__(self, config: Config) -> None:
        """Raise ConfigInvalid for invalid settings: the worker does not start then."""
        self.config = config

    @abstractmethod
    def get(self, path: str, keys: frozenset[str]) -> Lookup:
        """The values of the known `keys` at `path` (empty if a placeholder has none), and their
        TTL. Raise ProviderFailed when the lookup fails: the connector, task or request fails
        then."""

    def close(self) -> None:  # noqa: B027  # most hold no resources
        """Called once, when the worker stops."""
