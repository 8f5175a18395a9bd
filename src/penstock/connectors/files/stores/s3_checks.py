"""What a configuration of a source of S3 has wrong, told by the store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.api import Finding
from penstock.connectors.files.stores.s3 import Refused, S3Options
from penstock.connectors.files.stores.s3_reading import S3ReadStore
from penstock.connectors.files.stores.store import StoreUnavailable

_CHECK_S: Final = 5


def findings(
    options: S3Options, prefixes: Collection[str], settings: Mapping[str, str], other: str, url: str
) -> Iterable[Finding]:
    """What reading the bucket meets: at the setting of `settings`, or `other`; at `url` if the
    store does not answer."""
    store = S3ReadStore(replace(options, retries=0, timeout_s=_CHECK_S))
    try:
        for prefix in prefixes:
            store.check(prefix)
    except Refused as error:
        yield Finding(settings.get(error.s3_code, other), str(error))
    except StoreUnavailable as error:
        yield Finding(url, str(error))
    finally:
        store.close()
