"""KCQL of all families of connectors."""

from __future__ import annotations

import pytest

from penstock.connectors.kcql import CLAUSES, Dialect, KcqlInvalid, Shape, parse

ALL = Dialect(tuple(CLAUSES))
EXAMPLES = {
    Shape.FLAG: ("", "", (), {}),
    Shape.WORD: ("= 'a b'", "a b", (), {}),
    Shape.NAMES: ("(a.b, `c d`)", "", ("a.b", "c d"), {}),
    Shape.PAIRS: ("('a'='1', b=c)", "", (), {"a": "1", "b": "c"}),
    Shape.KIND: (" Kind (a=b)", "Kind", (), {"a": "b"}),
}


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_clause_has_its_shape(clause: str) -> None:
    text, word, names, pairs = EXAMPLES[CLAUSES[clause]]
    (statement,) = parse(f"insert into t select * from s {clause.lower()}{text}", ALL)
    assert list(statement.clauses) == [clause]
    assert (statement.word(clause), statement.names(clause)) == (word, names)
    assert statement.pairs(clause) == pairs


def test_statements_keep_their_texts_and_quoted_semicolons() -> None:
    texts = ["INSERT INTO `a;b` SELECT * FROM s", "UPSERT INTO t SELECT*FROM 'c;d' TTL 5"]
    dialect = Dialect(("TTL",), bare=r"\*|[^\s(),;=`'\"*]+")
    found = parse(f" ;{texts[0]} ;\n{texts[1]}; ", dialect)
    assert [each.text for each in found] == texts
    assert [(each.target, each.source) for each in found] == [("a;b", "s"), ("t", "c;d")]
    assert [each.number("TTL") for each in found] == [0, 5]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT * FROM s", "Expected INSERT INTO and a target before 'SELECT'"),
        ("INSERT INTO t SELECT a() FROM s", "Expected FROM before '('"),
        ("INSERT INTO t SELECT a, FROM s", "Expected FROM before 's'"),
        ("INSERT INTO t SELECT * FROM s PK (a b", "Expected , before 'its end'"),
        ("INSERT INTO t SELECT * FROM s LIMIT 5", "'LIMIT' is not supported after FROM s"),
        ("INSERT INTO t SELECT * FROM s PK `a", "cannot be parsed from '`a' on"),
    ],
)
def test_other_statements_are_refused(text: str, problem: str) -> None:
    with pytest.raises(KcqlInvalid) as reported:
        parse(text, Dialect(("PK",)))
    assert problem in str(reported.value)
