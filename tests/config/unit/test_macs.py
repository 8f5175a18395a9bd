"""The MAC algorithms of requests between workers: the same signatures and keys as Java's."""

from __future__ import annotations

import pytest

from penstock.config import worker
from penstock.config.macs import MACS, Mac, mac
from penstock.errors import ConfigInvalid

from .test_worker import MINIMAL

# Of Java 17: the MAC of "hello" with the key 00 01 … 1f, the length of a generated key in bytes,
# and the smallest inter.worker.key.size.
JAVA = {
    "HmacMD5": ("01d83eddeca313673bf6afaaf9e006b0", 64, 1),
    "HmacSHA1": ("27711e223c4141be6acabc506d3fb7e938131044", 64, 1),
    "HmacSHA224": ("37f5f97c60a525c95aa82d8b17f759224536bf18a922d52f0311df41", 28, 40),
    "HmacSHA256": ("53c40272a70c15ca4ee0af4df1f155fd6c41e00ce2307d8987ecd4bb36a7e990", 32, 40),
    "HmacSHA384": (
        "26c796b46a0cc2f40d1d35b5f167711c24b2d820bfee63e11090de042b0cb6f8"
        "478d556da837f02d7e33f2fa38bd2063",
        48,
        40,
    ),
    "HmacSHA512": (
        "1119cda219b4627affec99ade627df56247a9cc2f64a83ec76778b21d9398245"
        "6117e6cf35f6658103b67b56054bad2972e12aed6cd11239fce9a30ac5737bce",
        64,
        40,
    ),
    "HmacSHA512/224": ("5f9bc9d74876862fcd5a11ee0d29e92e65ecb5cc79b03a623c15ccac", 28, 40),
    "HmacSHA512/256": (
        "594892c941e5aff476a0609cd651cd368ea405216d4c1d738975c1a7d179fcaf",
        32,
        40,
    ),
    "HmacSHA3-224": ("3ad0789a45fa11d480688d11c59d27147ba7460753e1b87d89117a07", 28, 40),
    "HmacSHA3-256": (
        "e6d520deb05cf56101c5bbbc508af68ee30d077975a59ed8a70523d8ea84e11e",
        32,
        40,
    ),
    "HmacSHA3-384": (
        "9b29110dcda8fc5c42dd7eb7ec44c84817803772099dc2012b017e05bbb1dc3a"
        "9b7205d5e516f0f4a85db72689a32561",
        48,
        40,
    ),
    "HmacSHA3-512": (
        "479f39f94af43c0c762c3d515843bdae5dc07b0d1ff5dfe9cf972840a38dabab"
        "4c45b3f14dd092ddd9bd0442b73e5bb64c19138df425da4c03572227e6adf186",
        64,
        40,
    ),
}
KEY = bytes(range(32))


def test_the_algorithms_are_those_of_java() -> None:
    assert [algorithm.name for algorithm in MACS] == list(JAVA)


@pytest.mark.parametrize("name", JAVA)
def test_a_signature_and_a_key_are_those_that_java_makes(name: str) -> None:
    signature, length, least = JAVA[name]
    algorithm = named(name)
    assert algorithm.sign(KEY, b"hello").hex() == signature
    assert (algorithm.key_bytes(), algorithm.key_bytes(100)) == (length, 13)
    assert algorithm.bad_key_bits(least) is None
    assert algorithm.bad_key_bits(least - 1) is not None


def named(name: str) -> Mac:
    algorithm = mac(name)
    assert algorithm is not None
    assert mac(name.swapcase()) == algorithm
    return algorithm


@pytest.mark.parametrize("name", ["PBEWithHmacSHA256", "HmacPBESHA1", "SslMacMD5", "AES", ""])
def test_an_algorithm_that_cannot_sign_is_refused_at_the_start_by_its_setting(name: str) -> None:
    for setting in (
        "inter.worker.signature.algorithm",
        "inter.worker.key.generation.algorithm",
        "inter.worker.verification.algorithms",
    ):
        with pytest.raises(ConfigInvalid, match=setting):
            worker.parse_distributed({**MINIMAL, setting: name})


def test_a_session_key_has_the_size_and_the_name_that_java_gives_it() -> None:
    def keys(**settings: str) -> tuple[str, int]:
        own = {
            "inter.worker.key." + name.replace("_", "."): text for name, text in settings.items()
        }
        return worker.session_keys(worker.parse_distributed({**MINIMAL, **own}))

    assert keys() == ("HmacSHA256", 32)
    assert keys(generation_algorithm="hmacsha3-512") == ("HmacSHA3-512", 64)
    assert keys(generation_algorithm="HMACSHA1", size="100") == ("HmacSHA1", 13)


@pytest.mark.parametrize("bits", ["39", "0", "-1"])
def test_a_key_size_that_the_algorithm_does_not_have_is_refused_at_the_start(bits: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        worker.parse_distributed({**MINIMAL, "inter.worker.key.size": bits})
    assert refused.value.problems == (
        f"Invalid value {bits} for configuration inter.worker.key.size: Key length must be at"
        " least 40 bits with inter.worker.key.generation.algorithm=HmacSHA256",
    )
