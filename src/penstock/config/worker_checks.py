"""Checks of a worker's settings: its group's protocol, how requests are signed (KIP-507), and
extensions of its REST API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from penstock.config.define import Key, Rule, invalid
from penstock.config.macs import MACS, mac

CONNECT_PROTOCOLS: Final = ("eager", "compatible", "sessioned")


def bad_connect_protocol(value: str | None) -> str | None:
    """Kafka's message for an invalid `connect.protocol`."""
    if value is not None and value.lower() in CONNECT_PROTOCOLS:
        return None
    return "Invalid Connect protocol compatibility"


def unsupported_mac(value: str | None) -> str | None:
    """The problem of a MAC algorithm; None if requests can be signed with it."""
    if value is None or mac(value) is not None:
        return None
    known = ", ".join(algorithm.name for algorithm in MACS)
    return f"the algorithm is not supported by this worker; the supported algorithms are: [{known}]"


def bad_verification_algorithms(values: Sequence[str] | None) -> str | None:
    """The problem of `inter.worker.verification.algorithms`."""
    if not values:
        return "At least one signature verification algorithm must be provided"
    return next(filter(None, map(unsupported_mac, values)), None)


def missing_rest_extensions(values: Sequence[str] | None) -> str | None:
    """The problem of `rest.extension.classes`. Most extensions authenticate clients: without them
    the API would be open."""
    if not values:
        return None
    return (
        "REST extensions are Java classes, which penstock does not run; without them the REST API "
        "is open to everyone who reaches it. Remove the setting, and restrict access with "
        "ssl.client.auth=required or a proxy"
    )


def signature_is_accepted(signing: Key[str], accepting: Key[tuple[str, ...]]) -> Rule:
    """The rule that a worker accepts the signatures it makes."""

    def problems(parsed: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        signature, accepted = parsed[signing.name], parsed[accepting.name]
        if isinstance(accepted, tuple) and accepted and signature not in accepted:
            text = f"Signature algorithm must be present in {accepting.name} list"
            yield signing.name, invalid(signing.name, signature, text)

    return problems


def key_size_fits(generating: Key[str], size: Key[int | None]) -> Rule:
    """The rule that session keys of the algorithm can have the size."""

    def problems(parsed: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        name, bits = parsed[generating.name], parsed[size.name]
        algorithm = mac(name) if isinstance(name, str) else None
        if algorithm is None or not isinstance(bits, int):
            return
        text = algorithm.bad_key_bits(bits)
        if text is not None:
            text = f"{text} with {generating.name}={algorithm.name}"
            yield size.name, invalid(size.name, bits, text)

    return problems
