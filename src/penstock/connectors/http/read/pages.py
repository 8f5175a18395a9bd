"""Requests for further pages of a response."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from penstock.connectors.common.paths import MISSING
from penstock.connectors.http.client.messages import Answer, Request
from penstock.connectors.http.read.plan import Pages, Paging
from penstock.connectors.http.read.records import Unreadable

_LINK: Final = re.compile(r'<([^>]*)>((?:\s*;\s*[\w*-]+\s*=\s*(?:"[^"]*"|[^\s;,"]+))*)')
_REL: Final = re.compile(r'rel\s*=\s*(?:"([^"]*)"|([^\s;,"]+))', re.IGNORECASE)


def next_link(header: str) -> str | None:
    """The target of the link to the next page (RFC 8288).

    >>> next_link('<https://x/?page=2>; rel="next", <https://x/?page=9>; rel="last"')
    'https://x/?page=2'
    """
    for target, parameters in _LINK.findall(header):
        for quoted, bare in _REL.findall(parameters):
            if "next" in (quoted or bare).lower().split():
                return str(target)
    return None


def with_parameter(url: str, name: str, value: str) -> str:
    """The URL with this parameter in its query.

    >>> with_parameter("http://x/a?b=1&page=1", "page", "2")
    'http://x/a?b=1&page=2'
    """
    parts = urlsplit(url)
    others = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != name]
    return urlunsplit(parts._replace(query=urlencode([*others, (name, value)])))


def following(
    pages: Pages, first: Request, previous: Request, answer: Answer, document: Any, number: int,
    items: int,
) -> Request | None:  # fmt: skip
    """The request for the page after `previous`, the `number`th since `first`; None after the last
    page. Raises Unreadable for endless pages."""
    request: Request | None = None
    match pages.kind:
        case Paging.NONE:
            return None
        case Paging.LINK:
            target = next_link(answer.headers.get("link", ""))
            request = None if target is None else _at(previous, target)
        case Paging.NEXT | Paging.CURSOR:
            assert pages.pointer is not None
            node = pages.pointer.find(document)
            if node is MISSING or node is None or node in ("", False):
                return None
            if not isinstance(node, str | int):
                raise Unreadable(
                    f"The value at '{pages.pointer.text}' is not a string: check "
                    "penstock.http.page.pointer"
                )
            if pages.kind is Paging.NEXT:
                request = _at(previous, str(node))
            else:
                url = with_parameter(first.url, pages.parameter, str(node))
                request = replace(first, url=url)
        case Paging.PAGE:
            if not items:
                return None
            url = with_parameter(first.url, pages.parameter, str(pages.first + number))
            request = replace(first, url=url)
    if request is None:
        return None
    if request.url == previous.url:
        raise Unreadable(
            f"The page {previous.url} refers to itself as the next page: check "
            "penstock.http.page.mode"
        )
    if number >= pages.most:
        raise Unreadable(
            f"{previous.url} is page {number:,}, and there are more: raise penstock.http.page.max, "
            "or make the request more selective"
        )
    return request


def _at(previous: Request, target: str) -> Request:
    """The same request at another URL of this server: no other server gets credentials."""
    url = urljoin(previous.url, target)
    if urlsplit(url)[:2] != urlsplit(previous.url)[:2]:
        raise Unreadable(
            f"The next page of {previous.url} is on another server, {url}; all pages must be on "
            "the same server"
        )
    return replace(previous, url=url)
