"""Java `.properties` files, and the connector files of standalone mode.

Grammar: java.util.Properties.load (kafka-connect.md §12.3); file forms: kafka-connect.md §12.1.

    >>> parse_properties(b"a=1\\nb : two \\\\\\n   words\\n# no\\na 3")
    {'a': '3', 'b': 'two words'}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.errors import ConfigInvalid

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_BLANK: Final = " \t\f"
# The name ends at the first separator or blank that no backslash precedes.
_LINE: Final = re.compile(
    r"(?P<name>(?:\\.|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(?P<value>.*)", re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\(u(?P<code>[0-9a-fA-F]{4})|(?P<char>.)|$)", re.DOTALL)
_CONTROLS: Final[Mapping[str, str]] = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_INITIAL_STATES: Final = ("RUNNING", "PAUSED", "STOPPED")


def parse_properties(data: bytes) -> dict[str, str]:
    """The settings in file order; of repeated settings, the last value counts.

    The bytes are ISO-8859-1; `\\uXXXX` says everything else. Raises ConfigInvalid for a `\\u`
    without four hexadecimal digits; all other bytes are valid.
    """
    return parse_properties_text(data.decode("iso-8859-1"))


def parse_properties_text(text: str) -> dict[str, str]:
    """The same for decoded text: config providers read files as UTF-8."""
    settings: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _LINE.fullmatch(line)
        assert match is not None, line  # the pattern matches every text
        settings[_unescaped(match["name"])] = _unescaped(match["value"])
    return settings


def render_properties(settings: Mapping[str, str]) -> bytes:
    """A file that `parse_properties`, and Java, read as `settings`."""
    return "".join(
        f"{_escaped(name, '=: ')}={_escaped(value, '', leading=' ')}\n"
        for name, value in settings.items()
    ).encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without indentation, comments and blank lines left out and continuations joined."""
    lines = _LINE_END.split(text)
    if not lines[-1]:
        lines.pop()  # nothing follows the last line end
    rest = iter(enumerate(lines, 1))
    for number, line in rest:
        logical = line.lstrip(_BLANK)
        if not logical or logical[0] in "#!":
            continue
        # A lone backslash continues nothing, so it is not a line; at the end of the file Java takes
        # it for one.
        if logical == "\\":
            if number == len(lines):
                yield ""
            continue
        while _continues(logical):
            logical = logical[:-1] + next(rest, (0, ""))[1].lstrip(_BLANK)
        yield logical


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text

    def meaning(match: re.Match[str]) -> str:
        if code := match["code"]:
            return chr(int(code, 16))
        char: str = match["char"] or ""
        if char == "u":
            raise ConfigInvalid([f"Malformed \\uxxxx encoding in properties file: {text!r}."])
        return _CONTROLS.get(char, char)

    # Java's characters are UTF-16: two escapes may be the halves of one.
    halves = _ESCAPE.sub(meaning, text).encode("utf-16-le", "surrogatepass")
    return halves.decode("utf-16-le", "surrogatepass")


def _escaped(text: str, special: str, leading: str = "") -> str:
    names = {char: letter for letter, char in _CONTROLS.items()}
    out: list[str] = []
    for index, char in enumerate(text):
        if char in names:
            out.append("\\" + names[char])
        elif char in "\\#!" or char in special or (index == 0 and char in leading):
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be", "surrogatepass")
            out.extend(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
    return "".join(out)


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """The content of a connector file; `config` includes `name`. None is JSON's null."""

    name: str
    config: Mapping[str, str | None]
    initial_state: str | None = None  # RUNNING, PAUSED or STOPPED


def load_connector_file(data: bytes, path: str) -> ConnectorFile:
    """The connector in a file of one of three forms.

    Tried in turn: a JSON object of texts, a JSON create request (`name`, `config`,
    `initial_state`; other members are ignored), Java properties. Numbers and booleans count as
    texts. `path` is for the messages. Raises ConfigInvalid when no form yields a name.
    """
    document = _json_object(data)
    if document is not None:
        if (config := _texts(document)) is not None:
            return _named(config, path)
        if (request := _create_request(document, path)) is not None:
            return request
    return _named({**parse_properties(data)}, path)


def _named(config: dict[str, str | None], path: str) -> ConnectorFile:
    name = config.get("name")
    if name is None:
        problem = (
            f"Connector configuration at '{path}' is missing the mandatory 'name' configuration"
        )
        raise ConfigInvalid([problem])
    return ConnectorFile(name, config)


def _create_request(document: dict[str, object], path: str) -> ConnectorFile | None:
    members = document.get("config")
    name, state = document.get("name"), document.get("initial_state")
    config = _texts(members) if isinstance(members, dict) else None
    if config is None or not isinstance(name, str):
        return None
    if state is not None and not (isinstance(state, str) and state.upper() in _INITIAL_STATES):
        return None
    if config.setdefault("name", name) != name:
        problem = (
            f"Connector name configuration in 'config' doesn't match the one specified in 'name'"
            f" at '{path}'"
        )
        raise ConfigInvalid([problem])
    return ConnectorFile(name, config, state.upper() if state else None)


def _json_object(data: bytes) -> dict[str, object] | None:
    """The JSON object at the start of the bytes, with numbers as text."""
    try:
        # Not orjson: a number must keep its text, as in Jackson's coercion.
        decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)
        document, _ = decoder.raw_decode(data.decode("utf-8").lstrip())
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _texts(members: dict[str, object]) -> dict[str, str | None] | None:
    """The members as texts; None if one of them is an object or array."""
    config: dict[str, str | None] = {}
    for name, value in members.items():
        match value:
            case None | str():
                config[name] = value
            case bool():
                config[name] = "true" if value else "false"
            case _:
                return None
    return config
