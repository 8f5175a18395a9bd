"""Findings about a configuration, from checks of its store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.api import Finding
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable


class Checked(Protocol):
    """A store that can check whether it would serve a connector."""

    def check(self, name: str, /) -> None:
        """Raises what a request for this name, or this prefix, would."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Blame:
    """The settings to blame for errors of a store."""

    reasons: Mapping[str, str]
    """By `StoreRefused.reason`."""
    other: str
    """For any other refusal."""
    unreachable: str
    """If the store does not answer."""


def findings(store: Checked, names: Iterable[str], blame: Blame) -> Iterable[Finding]:
    """The first error that checks of these names raise. Closes the store."""
    try:
        for name in names:
            store.check(name)
    except StoreRefused as error:
        yield Finding(blame.reasons.get(error.reason, blame.other), str(error))
    except StoreUnavailable as error:
        yield Finding(blame.unreachable, str(error))
    finally:
        store.close()
