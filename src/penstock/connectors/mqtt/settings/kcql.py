"""The statements of Lenses' connectors, as far as MQTT's understand them (connectors.md §9).

>>> parse("INSERT INTO k SELECT * FROM /a/+/b WITHKEY(id, x.y)")[0].keys
(('id',), ('x', 'y'))
>>> parse("INSERT INTO `$` SELECT * FROM `$share/g/a`; insert into t select * from b")[1].source
'b'
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_NAME: Final = r"(?:`[^`]*`|[^\s`;]+)"
_HEAD: Final = re.compile(
    rf"\s*(?:INSERT|UPSERT)\s+INTO\s+(?P<target>{_NAME})\s+SELECT\s+(?P<fields>.*?)\s+FROM\s+"
    rf"(?P<source>{_NAME})(?P<rest>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_CLAUSE: Final = re.compile(
    r"\s*(?:"
    rf"WITHCONVERTER\s*=\s*(?P<converter>{_NAME})"
    r"|WITHKEY\s*\(\s*(?P<keys>[^)]*)\)"
    r"|KEYDELIM(?:ITER)?\s*=\s*(?P<delimiter>`[^`]*`|'[^']*'|\S+)"
    rf"|WITHREGEX\s*=\s*(?P<regex>`[^`]*`|'[^']*'|\S+)"
    rf"|WITHTARGET\s*=\s*(?P<field>{_NAME})"
    r"|PROPERTIES\s*\((?P<properties>[^)]*)\)"
    r")",
    re.IGNORECASE,
)
_PROPERTY: Final = re.compile(r"\s*'([^']*)'\s*=\s*(?:'([^']*)'|([^\s,']+))\s*(?:,|$)")


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
    """The statements of a setting. Raises ValueError with what is wrong."""
    statements = [_statement(each.strip()) for each in _split(text) if each.strip()]
    if not statements:
        raise ValueError("there is no statement in it")
    return statements


def _split(text: str) -> list[str]:
    """At semicolons that are not quoted."""
    return re.findall(r"(?:`[^`]*`|'[^']*'|[^;`'])+", text)


def _statement(text: str) -> Statement:
    head = _HEAD.match(text)
    if head is None:
        raise ValueError(
            f"'{text}' is not of the form INSERT INTO target SELECT * FROM source [clauses]"
        )
    if head["fields"].strip() != "*":
        raise ValueError(
            f"'{text}' selects fields; only SELECT * can be had. A transform, such as "
            "ReplaceField, selects fields"
        )
    clauses: dict[str, str] = {}
    rest, at = head["rest"], 0
    while rest[at:].strip():
        clause = _CLAUSE.match(rest, at)
        if clause is None or clause.end() == at:
            raise ValueError(
                f"'{rest[at:].strip()}' is not understood: after the source there can be "
                "WITHCONVERTER=, WITHKEY(), KEYDELIMITER=, WITHREGEX=, WITHTARGET= and PROPERTIES()"
            )
        at = clause.end()
        clauses |= {name: value for name, value in clause.groupdict().items() if value is not None}
    properties: dict[str, str] = {}
    given, at = clauses.get("properties", ""), 0
    while given[at:].strip():
        found = _PROPERTY.match(given, at)
        if found is None:
            raise ValueError(f"PROPERTIES({given}) is not a list of 'name'='value'")
        properties[found[1]] = found[2] if found[2] is not None else found[3]
        at = found.end()
    keys = [each.strip().strip("`") for each in clauses.get("keys", "").split(",")]
    return Statement(
        text=text,
        source=_plain(head["source"]),
        target=_plain(head["target"]),
        converter=_plain(clauses["converter"]) if "converter" in clauses else None,
        keys=tuple(tuple(each.split(".")) for each in keys if each),
        delimiter=_plain(clauses.get("delimiter", ".")),
        regex=_plain(clauses["regex"]) if "regex" in clauses else None,
        target_field=_plain(clauses["field"]) if "field" in clauses else None,
        properties=properties,
    )


def _plain(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "`'" else text
