"""What a configuration has wrong, told by the store that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.api import Finding
from penstock.connectors.files.stores.store import StoreUnavailable
from penstock.connectors.files.stores.tries import Refused


def findings(
    check: Callable[[], None], settings: Mapping[str, str], other: str, away: str
) -> Iterable[Finding]:
    """What `check` meets: at the setting of `settings` by the reason that the store gives, or at
    `other`; at `away` if the store does not answer."""
    try:
        check()
    except Refused as error:
        yield Finding(settings.get(error.reason, other), str(error))
    except StoreUnavailable as error:
        yield Finding(away, str(error))
