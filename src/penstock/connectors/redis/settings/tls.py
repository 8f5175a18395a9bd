"""TLS contexts from the connectors' settings, and errors that name these settings."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.api import ConfigInvalid
from penstock.api.settings import invalid
from penstock.api.tls import TlsSettings, client_context


@dataclass(frozen=True, slots=True, repr=False)
class Tls:
    """Makes TLS contexts. `settings`: Java's `ssl.*`; `files`: settings whose values are read from
    files; `names`: their names in messages. `verifies`: check the server's certificate;
    `checks_name`: also check that it is the host's."""

    settings: Mapping[str, str]
    files: Mapping[str, str]
    names: Mapping[str, str]
    verifies: bool = True
    checks_name: bool = True

    def __call__(self) -> ssl.SSLContext:
        """Makes a context. Raises ConfigInvalid, which names the setting."""
        contents = {name: self._content(name, path) for name, path in self.files.items() if path}
        settings = {name: value for name, value in self.settings.items() if value}
        try:
            context = client_context(TlsSettings({**settings, **contents}))
        except ConfigInvalid as error:
            raise ConfigInvalid([self._renamed(text) for text in error.problems]) from error
        context.check_hostname = context.check_hostname and self.verifies and self.checks_name
        if not self.verifies:
            context.verify_mode = ssl.CERT_NONE
        return context

    def _content(self, name: str, path: str) -> str:
        try:
            return Path(path).read_text("latin-1")
        except OSError as error:
            setting = self.names.get(name, name)
            raise ConfigInvalid(
                [invalid(setting, path, f"The file cannot be read: {error.strerror}")]
            ) from error

    def _renamed(self, text: str) -> str:
        for name, own in sorted(self.names.items(), key=lambda pair: -len(pair[0])):
            text = text.replace(f" {name}", f" {own}")
        return text
