from __future__ import annotations

from contextlib import suppress

from hypothesis import event, example, given
from hypothesis import strategies as st

from penstock.config.properties import load_connector_file, parse_properties, render_properties
from penstock.errors import ConfigInvalid

awkward = st.text(st.sampled_from("ab =:#!\\\n\r\t\f\0é€\U0001f600u0"), max_size=8) | st.text()
grammar = st.text(st.sampled_from("ab =:#!\\\n\r\t\fu0041"), max_size=40).map(
    lambda text: text.encode("iso-8859-1")
)
bytes_of_any_kind = st.binary() | grammar


@given(st.dictionaries(awkward, awkward))
def test_settings_that_are_written_read_as_themselves(settings: dict[str, str]) -> None:
    assert list(parse_properties(render_properties(settings)).items()) == list(settings.items())


@given(bytes_of_any_kind)
@example(b"\\")
@example(b"a\\\n")
def test_any_bytes_are_properties_except_for_half_an_escape(data: bytes) -> None:
    try:
        settings = parse_properties(data)
    except ConfigInvalid:
        event("refused")
        assert b"u" in data
    else:
        assert parse_properties(render_properties(settings)) == settings


@given(bytes_of_any_kind | st.binary().map(lambda tail: b'{"name":"c"' + tail))
def test_any_file_is_a_connector_or_refused(data: bytes) -> None:
    with suppress(ConfigInvalid):
        found = load_connector_file(data, "f")
        assert found.config["name"] == found.name
