"""TLS contexts from connectors' own settings for key and trust stores."""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.api import ConfigInvalid
from penstock.api.settings import invalid
from penstock.api.tls import TlsSettings, client_context

_ENCODED: Final = "base64:"
_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_STORES: Final = ("ssl.keystore", "ssl.truststore")
_INLINE: Final = ("ssl.keystore.key", "ssl.keystore.certificate.chain")


def tls_context(props: Mapping[str, str], names: Mapping[str, str]) -> ssl.SSLContext:
    """The context of a configuration. `names` maps Java's setting names to the configuration's;
    `ssl.keystore.key` and `ssl.keystore.certificate.chain` are files. Raises ConfigInvalid with the
    configuration's names."""
    settings = {java: props[own] for java, own in names.items() if props.get(own, "").strip()}
    with tempfile.TemporaryDirectory(prefix="penstock-cassandra-") as folder:
        for store in _STORES:
            name = f"{store}.location"
            if name in settings:
                path = _file(settings[name], names[name], Path(folder) / store)
                settings[name] = str(path)
                settings[f"{store}.type"] = _kind(path, names[name])
        for name in _INLINE:
            if name in settings:
                path = _file(settings[name], names[name], Path(folder) / name)
                settings[name] = path.read_text()
        try:
            return client_context(TlsSettings(settings))
        except ConfigInvalid as error:
            problems = []
            for text in error.problems:
                for java, own in names.items():
                    text = text.replace(java, own)
                problems.append(text)
            raise ConfigInvalid(problems) from error


def _file(value: str, setting: str, copy: Path) -> Path:
    """The path of a file; a file in Base64 is decoded into `copy`."""
    if not value.startswith(_ENCODED):
        path = Path(value)
        if not path.exists():
            raise ConfigInvalid([invalid(setting, value, "does not exist")])
        if not path.is_file():
            raise ConfigInvalid([invalid(setting, value, "is not a file")])
        return path
    try:
        copy.write_bytes(base64.b64decode("".join(value[len(_ENCODED) :].split()), validate=True))
    except binascii.Error as error:
        raise ConfigInvalid([invalid(setting, "base64:…", f"is not Base64: {error}")]) from error
    return copy


def _kind(path: Path, setting: str) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigInvalid([invalid(setting, str(path), "is not readable")]) from error
    if data.startswith(_JKS):
        raise ConfigInvalid(
            [
                invalid(
                    setting,
                    str(path),
                    "is a JKS file, which is not supported; convert it with: keytool "
                    f"-importkeystore -srckeystore {path} -destkeystore store.p12 "
                    "-deststoretype PKCS12",
                )
            ]
        )
    return "PEM" if b"-----BEGIN" in data else "PKCS12"
