from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.checks import valid_regex
from penstock.config.regex import RegexInvalid, compile_java

patterns = st.text(st.sampled_from("ab01.*+?|()[]{}^$\\-&~,:=!<>QEdwshRpPxuiz"), max_size=12)


@given(patterns | st.text(max_size=12))
def test_a_pattern_compiles_or_is_refused_without_a_warning(pattern: str) -> None:
    problem = valid_regex().problem("k", pattern)
    if problem is None:
        assert isinstance(compile_java(pattern), re.Pattern)
    else:
        with pytest.raises(RegexInvalid) as raised:
            compile_java(pattern)
        assert str(raised.value) in problem
        assert pattern in problem


@given(st.text(max_size=12))
def test_quoted_text_matches_itself_only(text: str) -> None:
    if "\\E" in text or text.endswith("\\"):
        return
    compiled = compile_java(f"\\Q{text}\\E")
    assert compiled.fullmatch(text)
    assert not compiled.fullmatch(text + "x")


@given(st.sets(st.characters(codec="utf-8"), min_size=1, max_size=5))
def test_an_escaped_class_holds_its_members(members: set[str]) -> None:
    escaped = "".join(f"\\x{{{ord(char):x}}}" for char in members)
    compiled = compile_java(f"[{escaped}]")
    assert all(compiled.fullmatch(char) for char in members)
    if "x" not in members:
        assert not compiled.fullmatch("x")


@pytest.mark.parametrize("flags", ["i", "s", "m", "is"])
def test_flags_at_the_start_hold_for_the_whole_pattern(flags: str) -> None:
    assert isinstance(compile_java(f"(?{flags})a|b"), re.Pattern)
