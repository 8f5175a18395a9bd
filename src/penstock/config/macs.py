"""The MAC algorithms that sign requests between workers (KIP-507), and the keys for them.

Names are Java's, in any case. Key lengths are those of Java's key generators.

    >>> mac("hmacsha512/256").key_bytes()
    32
    >>> mac("HmacSHA256").key_bytes(100)
    13
    >>> mac("PBEWithHmacSHA256") is None
    True
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_SHORTEST_BITS: Final = 40


@dataclass(frozen=True, slots=True)
class Mac:
    """An algorithm: its name, hashlib's name of its digest, and the limits of its keys."""

    name: str
    digest: str
    default_bytes: int
    shortest_bits: int = _SHORTEST_BITS

    def sign(self, key: bytes, body: bytes) -> bytes:
        """The signature of a body."""
        return hmac.digest(key, body, self.digest)

    def key_bytes(self, bits: int | None = None) -> int:
        """How long a generated key is; `bits` is `inter.worker.key.size`."""
        return self.default_bytes if bits is None else -(-bits // 8)

    def bad_key_bits(self, bits: int | None) -> str | None:
        """Java's words for a size that keys of this algorithm cannot have."""
        if bits is None or bits >= self.shortest_bits:
            return None
        if self.shortest_bits == 1:
            return "Empty key"
        return f"Key length must be at least {self.shortest_bits} bits"


MACS: Final = tuple(
    algorithm
    for algorithm in (
        Mac("HmacMD5", "md5", 64, shortest_bits=1),
        Mac("HmacSHA1", "sha1", 64, shortest_bits=1),
        Mac("HmacSHA224", "sha224", 28),
        Mac("HmacSHA256", "sha256", 32),
        Mac("HmacSHA384", "sha384", 48),
        Mac("HmacSHA512", "sha512", 64),
        Mac("HmacSHA512/224", "sha512_224", 28),
        Mac("HmacSHA512/256", "sha512_256", 32),
        Mac("HmacSHA3-224", "sha3_224", 28),
        Mac("HmacSHA3-256", "sha3_256", 32),
        Mac("HmacSHA3-384", "sha3_384", 48),
        Mac("HmacSHA3-512", "sha3_512", 64),
    )
    if algorithm.digest in hashlib.algorithms_available  # OpenSSL may lack some
)
"""Java's MAC algorithms that work with a generated key; those named PBE need a password."""

_BY_NAME: Final[Mapping[str, Mac]] = {algorithm.name.upper(): algorithm for algorithm in MACS}


def mac(name: str) -> Mac | None:
    """The algorithm with this name, in any case; None if it cannot sign requests here."""
    return _BY_NAME.get(name.upper())
