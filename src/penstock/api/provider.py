"""The contract of config providers, which say what placeholders in configurations stand for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from penstock.api.plugin import Plugin
from penstock.config.define import Config
from penstock.config.providers import Lookup


class ConfigProvider(ABC):
    """Knows secrets, or other texts that are not to stand in configurations themselves.

    A worker makes one instance for every name in `config.providers`, from the settings under
    `config.providers.NAME.param.`, and asks it whenever a connector or task starts or is
    validated, in several threads if need be.

        class Vault(ConfigProvider):
            plugin = Plugin("org.example.Vault", "1.0", ConfigDef(ADDRESS))

            def get(self, path: str, keys: frozenset[str]) -> Lookup:
                secret = read(self.config[ADDRESS], path)
                return Lookup({key: secret[key] for key in keys & secret.keys()}, ttl_ms=3_600_000)
    """

    plugin: ClassVar[Plugin]

    def __init__(self, config: Config) -> None:
        """Raise ConfigInvalid for settings it cannot be used with: the worker does not start."""
        self.config = config

    @abstractmethod
    def get(self, path: str, keys: frozenset[str]) -> Lookup:
        """What it knows of `keys` at `path` (empty where a placeholder has none), and for how long
        that holds. Raise ProviderFailed when it cannot be asked: whatever needed it fails."""

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """The worker does not ask any more."""
