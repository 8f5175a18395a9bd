"""What a configuration has wrong, told by the store that it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.api import Finding
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable


class Checked(Protocol):
    """A store that can tell whether it would do what a connector is to ask of it."""

    def check(self, name: str, /) -> None:
        """Raises what a request for this name, or this prefix, would."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Blame:
    """The settings that are wrong by what a store says."""

    reasons: Mapping[str, str]
    """By the reason that it gives."""
    other: str
    """For any other."""
    away: str
    """If it does not answer."""


def findings(store: Checked, names: Iterable[str], blame: Blame) -> Iterable[Finding]:
    """What checks of these names meet first. Closes the store."""
    try:
        for name in names:
            store.check(name)
    except StoreRefused as error:
        yield Finding(blame.reasons.get(error.reason, blame.other), str(error))
    except StoreUnavailable as error:
        yield Finding(blame.away, str(error))
    finally:
        store.close()
