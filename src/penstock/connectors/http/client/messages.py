"""Requests, responses, and their errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import quote, urlencode

from penstock.api import PenstockError, Unavailable

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `url` is sent unchanged, with the `secrets` added to its query; the headers
    include the body's type."""

    method: str
    url: str
    headers: Headers = field(default=(), repr=False)
    body: bytes | None = None
    secrets: Headers = field(default=(), repr=False)

    @property
    def address(self) -> str:
        """The URL with the secrets; never for messages."""
        if not self.secrets:
            return self.url
        url, mark, fragment = self.url.partition("#")
        joined = "&" if "?" in url else "?"
        return f"{url}{joined}{urlencode(self.secrets, quote_via=quote)}{mark}{fragment}"

    def with_headers(self, *headers: tuple[str, str]) -> Request:
        """The request with these headers instead of others of the same names."""
        names = {name.lower() for name, _ in headers}
        others = tuple(header for header in self.headers if header[0].lower() not in names)
        return replace(self, headers=others + headers)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; the names of its headers are in lower case."""

    status: int
    reason: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    url: str = ""

    @property
    def text(self) -> str:
        """The body, decoded leniently."""
        return self.body.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def summary(self) -> str:
        """A short description for messages."""
        start = " ".join(self.text[:300].split())
        return f"HTTP {self.status}{f' {self.reason}' if self.reason else ''}" + (
            f": {start}" if start else ""
        )


class Unreachable(Unavailable):
    """No response: the server is down or slow, or the connection broke."""


class Refused(PenstockError):
    """A response that no retry will change."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.http_status = status


class TooLarge(PenstockError):
    """A response over the size limit."""


def retry_after_ms(headers: Mapping[str, str], now: datetime | None = None) -> int | None:
    """The delay that a server asks for (RFC 9110, section 10.2.3), at most a day.

    >>> retry_after_ms({"retry-after": "3"})
    3000
    >>> retry_after_ms({"retry-after": "soon"}) is None
    True
    """
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isdecimal():
        return min(int(text), 86_400) * 1000
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    remaining_s = (until - (now or datetime.now(UTC))).total_seconds()
    return int(min(max(remaining_s, 0), 86_400) * 1000)
