"""Documents in text: strict JSON, Extended JSON (both versions), and the JSON of MongoDB's shell.

The shell's JSON has unquoted names, texts in single quotes, and calls such as `ObjectId("…")`,
which the drivers for Java read wherever a setting or a record holds a document as text.

>>> parse("{_id: ObjectId('65a000000000000000000001'), n: NumberLong(5)}")
{'_id': ObjectId('65a000000000000000000001'), 'n': 5}
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

_BLANK: Final = re.compile(r"\s*")
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)")
_NAME: Final = re.compile(r"[A-Za-z_$][\w$]*")
_REGEX: Final = re.compile(r"/((?:[^/\\]|\\.)*)/([a-z]*)")
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_INT64: Final = 1 << 63


class TextInvalid(ValueError):
    """A text that is not a document; the message says what was expected, and where."""


def parse(text: str) -> Any:
    """The value of a text: a document is a dict, MongoDB's own types are those of
    `bson`. Raises TextInvalid."""
    try:
        if '"$' not in text:
            return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    return _Reader(text).whole()


def parse_document(text: str) -> dict[str, Any]:
    """A document; raises TextInvalid for anything else."""
    document = parse(text)
    if not isinstance(document, dict):
        raise TextInvalid("a document is expected, such as {...}")
    return document


def parse_documents(text: str) -> list[dict[str, Any]]:
    """An array of documents; an empty text is an empty array. If a text cannot be read, its
    backslashes are taken literally, as in the JVM's connector: regular expressions often need it.
    Raises TextInvalid."""
    if not text.strip():
        return []
    try:
        documents = parse(text)
    except TextInvalid:
        documents = parse(text.replace("\\", "\\\\"))
    if not isinstance(documents, list) or not all(
        isinstance(document, dict) for document in documents
    ):
        raise TextInvalid("an array of documents is expected, such as [{...}]")
    return documents


class _Reader:
    """Reads one text from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Any:
        value = self._value()
        self._skip()
        if self._at < len(self._text):
            raise self._expected("the end of the text")
        return value

    def _value(self) -> Any:
        self._skip()
        match self._text[self._at : self._at + 1]:
            case "{":
                return self._object()
            case "[":
                return self._array("]")
            case '"' | "'" as quote:
                return self._string(quote)
            case "/":
                return self._regex()
        if self._text.startswith("-Infinity", self._at):
            self._at += len("-Infinity")
            return float("-inf")
        if number := _NUMBER.match(self._text, self._at):
            if self._text[number.end() : number.end() + 1] not in ("", *" \t\r\n,]})"):
                raise self._expected("a value")
            self._at = number.end()
            return _number(number[0])
        return self._named()

    def _object(self) -> Any:
        self._at += 1
        members: dict[str, Any] = {}
        if self._ends("}"):
            return members
        while True:
            name = self._name()
            self._take(":")
            members[name] = self._value()
            if self._ends("}"):
                return _extended(members)
            self._take(",")
            if self._ends("}"):
                return _extended(members)

    def _array(self, end: str) -> list[Any]:
        self._at += 1
        items: list[Any] = []
        while not self._ends(end):
            if items:
                self._take(",")
                if self._ends(end):
                    break
            items.append(self._value())
        return items

    def _name(self) -> str:
        self._skip()
        quote = self._text[self._at : self._at + 1]
        if quote in ('"', "'"):
            return self._string(quote)
        name = _NAME.match(self._text, self._at)
        if name is None:
            raise self._expected("a name")
        self._at = name.end()
        return name[0]

    def _string(self, quote: str) -> str:
        parts: list[str] = []
        at = self._at + 1
        while True:
            char = self._text[at : at + 1]
            if char == quote:
                self._at = at + 1
                # A pair of surrogates was written as two escapes.
                return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            if char == "":
                raise self._expected(f"a closing {quote}")
            if char != "\\":
                parts.append(char)
                at += 1
                continue
            escaped = self._text[at + 1 : at + 2]
            if escaped == "u":
                digits = self._text[at + 2 : at + 6]
                if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                    raise self._expected("four hexadecimal digits")
                parts.append(chr(int(digits, 16)))
                at += 6
            elif escaped in ('"', "'", "\\", "/") or escaped in _ESCAPES:
                parts.append(_ESCAPES.get(escaped, escaped))
                at += 2
            else:
                raise self._expected("an escape")

    def _regex(self) -> Any:
        from bson import Regex

        literal = _REGEX.match(self._text, self._at)
        if literal is None:
            raise self._expected("a regular expression")
        self._at = literal.end()
        return Regex(literal[1], literal[2])

    def _named(self) -> Any:
        word = _NAME.match(self._text, self._at)
        if word is None:
            raise self._expected("a value")
        self._at = word.end()
        name = word[0]
        if name == "new":
            return self._named_after_new()
        if name in _WORDS:
            return _WORDS[name]()
        if name in _CALLS:
            arguments: list[Any] = []
            self._skip()
            if self._text[self._at : self._at + 1] == "(":
                arguments = self._array(")")
            try:
                return _CALLS[name](*arguments)
            except Exception as error:  # bson's errors, such as InvalidId, have no common class
                raise TextInvalid(f"{name} at {self._at}: {error}") from error
        self._at = word.start()
        raise self._expected("a value")

    def _named_after_new(self) -> Any:
        self._skip()
        return self._named()

    def _ends(self, end: str) -> bool:
        self._skip()
        if self._text[self._at : self._at + 1] != end:
            return False
        self._at += 1
        return True

    def _take(self, char: str) -> None:
        if not self._ends(char):
            raise self._expected(f"'{char}'")

    def _skip(self) -> None:
        blank = _BLANK.match(self._text, self._at)
        self._at = blank.end() if blank else self._at

    def _expected(self, expected: str) -> TextInvalid:
        rest = self._text[self._at : self._at + 20]
        return TextInvalid(f"{expected} expected at character {self._at}, not {rest!r}")


def _number(text: str) -> int | float:
    if re.fullmatch(r"[+-]?\d+", text):
        number = int(text)
        if not -_INT64 <= number < _INT64:
            raise TextInvalid(f"{text} has more than 64 bits")
        return number
    return float(text)


def _extended(members: dict[str, Any]) -> Any:
    """The value of an Extended JSON object, or the object unchanged."""
    first = next(iter(members), "")
    if not first.startswith("$") and "$" not in "".join(members):
        return members
    from bson import json_util

    try:
        return json_util.object_hook(members, _options())
    except Exception as error:  # TypeError, KeyError, InvalidId: the members are wrong
        raise TextInvalid(str(error)) from error


def _options() -> Any:
    from bson import json_util
    from bson.binary import UuidRepresentation
    from bson.codec_options import DatetimeConversion

    return json_util.JSONOptions(
        tz_aware=True,
        tzinfo=UTC,
        uuid_representation=UuidRepresentation.UNSPECIFIED,
        datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    )


def _object_id(text: str | None = None) -> Any:
    from bson import ObjectId

    return ObjectId(text)


def _date(value: str | int | float | None = None) -> Any:
    from bson.datetime_ms import DatetimeMS

    if value is None:
        return datetime.now(UTC)
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return DatetimeMS(int(value))


def _long(value: str | int) -> Any:
    from bson import Int64

    return Int64(value)


def _decimal(value: str | int) -> Any:
    from bson import Decimal128

    return Decimal128(str(value))


def _timestamp(seconds: int, increment: int = 1) -> Any:
    from bson import Timestamp

    return Timestamp(seconds, increment)


def _binary(subtype: int, text: str) -> Any:
    from bson import Binary

    return Binary(base64.b64decode(text, validate=True), subtype)


def _hexadecimal(subtype: int, text: str) -> Any:
    from bson import Binary

    return Binary(bytes.fromhex(text), subtype)


def _uuid(text: str) -> Any:
    import uuid

    from bson import Binary

    return Binary.from_uuid(uuid.UUID(text))


def _pattern(pattern: str, flags: str = "") -> Any:
    from bson import Regex

    return Regex(pattern, flags)


def _min_key() -> Any:
    from bson import MinKey

    return MinKey()


def _max_key() -> Any:
    from bson import MaxKey

    return MaxKey()


_WORDS: Final[Mapping[str, Callable[[], Any]]] = {
    "true": lambda: True,
    "false": lambda: False,
    "null": lambda: None,
    "undefined": lambda: None,
    "NaN": lambda: float("nan"),
    "Infinity": lambda: float("inf"),
}
_CALLS: Final[Mapping[str, Callable[..., Any]]] = {
    "ObjectId": _object_id,
    "ISODate": _date,
    "Date": _date,
    "NumberInt": int,
    "NumberLong": _long,
    "NumberDecimal": _decimal,
    "Timestamp": _timestamp,
    "BinData": _binary,
    "HexData": _hexadecimal,
    "UUID": _uuid,
    "RegExp": _pattern,
    "MinKey": _min_key,
    "MaxKey": _max_key,
}
