from __future__ import annotations

import pytest

from penstock.config.regex import RegexInvalid, compile_java

# pattern, a text it matches in full, a text it does not
MATCHES = [
    ("orders", "orders", "orders2"),
    ("a|ab", "ab", "abc"),
    ("x{1,2}+", "xx", "xxx"),
    ("a*+b", "aab", "aa"),
    ("(?>a|ab)c", "ac", "abc"),
    (r"(?<n>a)\k<n>", "aa", "ab"),
    (r"(a)\1+", "aaa", "a"),
    (r"\Qa.b\E+", "a.bb", "axb"),
    (r"\Qa.b", "a.b", "axb"),
    (r"\p{Alpha}\p{Digit}", "a1", "é1"),
    (r"\P{Alpha}", "1", "a"),
    (r"[\p{Upper}_]+", "A_B", "a"),
    (r"\d", "1", "\u0661"),
    (r"\w", "a", "é"),
    (r"\x41\u0042\x{43}\0104", "ABCD", "abcd"),
    (r"\h", "\u00a0", "a"),
    (r"\R", "\r\n", "a"),
    (r"\e\a\cA", "\x1b\x07\x01", "ea"),
    (r"a\z", "a", "b"),
    (".", "\x0b", "\u2028"),
    ("(?s).", "\n", "ab"),
    ("(?i)abc", "ABC", "abd"),
    ("((?i)a|b)c", "Bc", "BC"),
    ("(?i:a)b", "Ab", "AB"),
    ("[a[bc]d]+", "abcd", "e"),
    ("[]a]+", "]a", "b"),
    ("[^a]", "b", "a"),
    (r"[\w-]+", "a-b", "a.b"),
    ("[a-c-]+", "a-c", "d"),
    (r"[\[|~&-]+", "[|~&-", "a"),
    ("[--/]", ".", "a"),
    (r"[\D]", "a", "1"),
    ("a]}", "a]}", "a"),
    (r"dev\.orders-[0-9]{2}", "dev.orders-07", "dev-orders-07"),
    ("(?=a)a(?!b)(?<=a)(?<!b)", "a", "b"),
]

# Captured from java.util.regex, so the text is Java's to the letter.
INVALID = [
    ("[", "Unclosed character class near index 0\n[\n^"),
    ("a[bc", "Unclosed character class near index 3\na[bc\n   ^"),
    ("(a", "Unclosed group near index 2\n(a"),
    ("a)", "Unmatched closing ')' near index 0\na)\n^"),
    (")", "Unmatched closing ')'\n)"),
    ("a**", "Dangling meta character '*' near index 2\na**\n  ^"),
    ("*a", "Dangling meta character '*' near index 0\n*a\n^"),
    ("a|*", "Dangling meta character '*' near index 2\na|*\n  ^"),
    ("(*)", "Dangling meta character '*' near index 1\n(*)\n ^"),
    ("\\", "Unexpected internal error near index 1\n\\"),
    ("[z-a]", "Illegal character range near index 3\n[z-a]\n   ^"),
    ("(?P<n>a)", "Unknown inline modifier near index 2\n(?P<n>a)\n  ^"),
    ("(?z)", "Unknown inline modifier near index 2\n(?z)\n  ^"),
    ("(?", "Unknown inline modifier near index 2\n(?"),
    ("a{", "Illegal repetition near index 2\na{"),
    ("{", "Illegal repetition near index 1\n{"),
    (r"\p{Foo}", "Unknown character property name {Foo} near index 6\n\\p{Foo}\n      ^"),
    ("[]", "Unclosed character class near index 1\n[]\n ^"),
    ("[^]", "Unclosed character class near index 2\n[^]\n  ^"),
    (r"\y", "Illegal/unsupported escape sequence near index 1\n\\y\n ^"),
]

# Java supports these; we refuse them rather than match something else.
UNSUPPORTED = ["[a&&b]", "[a[^b]]", r"[\H]", "a(?i)b", "(?<=a*)b", r"\p{IsGreek}"]


@pytest.mark.parametrize(("pattern", "yes", "no"), MATCHES)
def test_a_java_pattern_means_the_same_here(pattern: str, yes: str, no: str) -> None:
    compiled = compile_java(pattern)
    assert compiled.fullmatch(yes)
    assert not compiled.fullmatch(no)


@pytest.mark.parametrize(("pattern", "message"), INVALID)
def test_a_mistake_is_reported_in_javas_words(pattern: str, message: str) -> None:
    with pytest.raises(RegexInvalid) as raised:
        compile_java(pattern)
    assert str(raised.value) == message


@pytest.mark.parametrize("pattern", [*UNSUPPORTED, "a{99999999999}", "a{2,1}", r"\x4", r"\k<x>"])
def test_expressions_that_python_cannot_run_are_refused(pattern: str) -> None:
    with pytest.raises(RegexInvalid):
        compile_java(pattern)
