"""The rules of a data contract that a schema in the registry has: encryption, validation,
transformation of fields. None can be run here, so data of such a schema are refused, as Confluent's
converters do without the rule's executor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from penstock.errors import DataError

_NO_ACTION: Final = "NONE"


class RuleMode(Enum):
    """When a rule runs."""

    WRITE = "written"
    READ = "read"


@dataclass(frozen=True, slots=True)
class DataRule:
    """A rule that runs when data are written or read, or both."""

    name: str
    type: str
    mode: str
    on_failure: str

    def prevents(self, mode: RuleMode) -> bool:
        """Whether the rule runs then, and may not fail."""
        if self.mode not in (mode.name, "WRITEREAD"):
            return False
        write, comma, read = self.on_failure.partition(",")
        return (read if comma and mode is RuleMode.READ else write).strip() != _NO_ACTION


def rules_of(body: Any) -> tuple[DataRule, ...]:
    """The rules in a response of the registry."""
    rules = body.get("ruleSet") or {}
    return tuple(
        DataRule(
            str(rule.get("name") or ""),
            str(rule.get("type") or ""),
            str(rule.get("mode") or "").upper(),
            str(rule.get("onFailure") or ""),
        )
        for kind in ("domainRules", "encodingRules")
        for rule in rules.get(kind) or ()
        if not rule.get("disabled")
    )


def refuse_rules(rules: Iterable[DataRule], mode: RuleMode) -> None:
    """Raises DataError if one of the rules would have to run."""
    rule = next((rule for rule in rules if rule.prevents(mode)), None)
    if rule is not None:
        raise DataError(
            f"Could not find rule executor of type {rule.type}: the schema has the rule "
            f"'{rule.name}', which runs when data are {mode.value}, and rules of data contracts "
            "are not supported. Disable the rule in the registry, or set its onFailure to NONE."
        )
