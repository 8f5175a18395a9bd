"""Records as SQL++ statements. Names are quoted, and values are parameters: nothing in a record can
become a part of the syntax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.api import DataError
from penstock.connectors.couchbase.client.keyspace import quoted
from penstock.connectors.couchbase.settings.sink import Statements
from penstock.connectors.couchbase.write.documents import Document


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and its parameters."""

    text: str
    parameters: Mapping[str, Any]


def statement_of(document: Document, plan: Statements) -> Statement:
    """The statement that sets a record's fields. Raises DataError unless the value is an object
    with fields."""
    content = document.content
    if not isinstance(content, dict) or not content:
        raise DataError("The value is not an object with fields, as N1qlSinkHandler requires")
    keyspace = document.keyspace.quoted
    parameters: dict[str, Any] = {f"f{at}": value for at, value in enumerate(content.values())}
    names = list(content)

    def assignments(prefix: str = "") -> str:
        return ", ".join(f"{prefix}{quoted(name)} = $f{at}" for at, name in enumerate(names))

    if plan.where is not None:
        conditions = []
        for at, (name, text) in enumerate(plan.where):
            if text is not None:
                parameters[f"w{at}"] = text
                conditions.append(f"{quoted(name)} = $w{at}")
            elif name in content:
                conditions.append(f"{quoted(name)} = $f{names.index(name)}")
            else:
                raise DataError(f"The value has no field '{name}' (couchbase.n1ql.where.fields)")
        criteria = " AND ".join(conditions)
        return Statement(
            f"UPDATE {keyspace} SET {assignments()} WHERE {criteria} RETURNING META().id;",
            parameters,
        )
    parameters["id"] = document.id
    if not plan.creates:
        return Statement(
            f"UPDATE {keyspace} USE KEYS $id SET {assignments()} RETURNING META().id;", parameters
        )
    parameters["content"] = content
    return Statement(
        f"MERGE INTO {keyspace} AS doc USING 1 AS o ON KEY $id "
        f"WHEN MATCHED THEN UPDATE SET {assignments('doc.')} "
        "WHEN NOT MATCHED THEN INSERT $content",
        parameters,
    )
