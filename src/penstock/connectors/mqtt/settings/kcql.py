"""The KCQL of Lenses' MQTT connectors (connectors.md §9).

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
    wide=r"[^\s`;]+",  # MQTT topics may contain nearly every character
)


@dataclass(frozen=True, slots=True)
class Statement:
    """`INSERT INTO target SELECT * FROM source …`."""

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
    """Parses the statements of a setting. Raises KcqlInvalid with the problem."""
    return [_statement(parsed) for parsed in kcql.parse(text, _DIALECT)]


def _statement(parsed: kcql.Statement) -> Statement:
    if [field.name for field in parsed.fields] != ["*"]:
        raise KcqlInvalid(
            f"'{parsed.text}' selects fields; only SELECT * is supported. To select fields, use a "
            "transform such as ReplaceField"
        )
    delimiters = [parsed.word(clause) for clause in parsed.clauses if clause in _DELIMITERS]
    return Statement(
        text=parsed.text,
        source=parsed.source,
        target=parsed.target,
        converter=parsed.word("WITHCONVERTER") or None,
        keys=tuple(tuple(path.split(".")) for path in parsed.names("WITHKEY")),
        delimiter=delimiters[-1] if delimiters else ".",
        regex=parsed.word("WITHREGEX") if "WITHREGEX" in parsed.clauses else None,
        target_field=parsed.word("WITHTARGET") or None,
        properties=parsed.pairs("PROPERTIES"),
    )
