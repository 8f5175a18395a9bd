"""The statements of Lenses' connectors, as far as MQTT's understand them (connectors.md §9).

>>> parse("INSERT INTO k SELECT * FROM /a/+/b WITHKEY(id, x.y)")[0].keys
(('id',), ('x', 'y'))
>>> parse("INSERT INTO `$` SELECT * FROM `$share/g/a`; insert into t select * from b")[1].source
'b'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.connectors import kcql
from penstock.connectors.kcql import Dialect, KcqlInvalid

_DELIMITERS: Final = ("KEYDELIMITER", "KEYDELIM")
_DIALECT: Final = Dialect(
    ("WITHCONVERTER", "WITHKEY", *_DELIMITERS, "WITHREGEX", "WITHTARGET", "PROPERTIES"),
    wide=r"[^\s`;]+",  # the names of MQTT's topics have nearly every character
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement."""

    text: str
    source: str
    target: str
    converter: str | None = None
    keys: tuple[tuple[str, ...], ...] = ()
    delimiter: str = "."
    regex: str | None = None
    target_field: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


def parse(text: str) -> list[Statement]:
    """The statements of a setting. Raises KcqlInvalid with what is wrong."""
    return [_statement(each) for each in kcql.parse(text, _DIALECT)]


def _statement(given: kcql.Statement) -> Statement:
    if [each.name for each in given.fields] != ["*"]:
        raise KcqlInvalid(
            f"'{given.text}' selects fields; only SELECT * can be had. A transform, such as "
            "ReplaceField, selects fields"
        )
    delimiters = [given.word(each) for each in given.clauses if each in _DELIMITERS]
    return Statement(
        text=given.text,
        source=given.source,
        target=given.target,
        converter=given.word("WITHCONVERTER") or None,
        keys=tuple(tuple(each.split(".")) for each in given.names("WITHKEY")),
        delimiter=delimiters[-1] if delimiters else ".",
        regex=given.word("WITHREGEX") if "WITHREGEX" in given.clauses else None,
        target_field=given.word("WITHTARGET") or None,
        properties=given.pairs("PROPERTIES"),
    )
