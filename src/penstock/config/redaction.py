"""Removes secrets from messages, logs and traces by how they are written.

The texts of errors often quote addresses and settings, of other libraries, too. Whatever looks like
a credential becomes `[hidden]`: the user info of a URL, signatures and keys in its query, parts of
connection strings, passwords of login modules, private keys.

    >>> redacted("Cannot connect to https://me:s3cret@host:port/x?sv=1&sig=aGFzaA%3D%3D&st=now")
    'Cannot connect to https://[hidden]@host:port/x?sv=1&sig=[hidden]&st=now'
    >>> redacted('AccountName=me;AccountKey=aGFzaA==;x.LoginModule required password="p w";')
    'AccountName=me;AccountKey=[hidden];x.LoginModule required password="[hidden]";'
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from penstock.config.define import HIDDEN

_NAMES: Final = r"""
    [\w.\-]*(?:password|passwd|passphrase|pwd)
  | [\w.\-]*(?:client|shared|api|app|consumer|account|access|aws|signing|webhook)[_.\-]?secret
  | [\w.\-]*secret[_.\-]?(?:access[_.\-]?)?key
  | [\w.\-]*(?:account|access|shared|sharedaccess|api|app|private|storage)[_.\-]?key(?!s?[_.\-]?id)
  | sharedaccesssignature | (?:x-amz-|x-goog-)?(?:signature|credential) | sig | secret
  | x-amz-security-token | x-goog-iam-authorization-token | awsaccesskeyid | googleaccessid
  | [\w.\-]*(?:access|refresh|id|auth|sas|session|bearer|security|api|oauth)[_.\-]?token | token
  | upload_id | basic\.auth\.user\.info | user\.info
"""
_QUOTED: Final = r""" "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' """

_MAY_CONTAIN: Final = re.compile(
    r"://|@|sig|token|key|pass|pwd|secret|upload_id|credential|accessid|user\.info|authorization",
    re.IGNORECASE,
)
_RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (
        re.compile(
            r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?(?:-----END \1PRIVATE KEY-----|\Z)", re.DOTALL
        ),
        HIDDEN,
    ),
    # User info. A password with a slash is not a URL any more, but is a secret all the same; what
    # follows the colon must not be a port.
    (
        re.compile(
            r"""(?<=://)(?:[^\s/'"<>@]*:(?!\d+[/?#])[^\s'"<>]*|[^\s/?#'"<>]*)@(?=[^\s@]|\Z)""",
        ),
        f"{HIDDEN}@",
    ),
    (re.compile(r"(?i)(jdbc:oracle:\w+:)[^\s@/'\"]*/[^\s@'\"]*@"), rf"\1{HIDDEN}@"),
    (
        re.compile(r"(?i)(authorization['\"]?\s*[:=]\s*[b]?['\"]?(?:[\w\-]+\s+)?)[^\s'\",;]+"),
        rf"\1{HIDDEN}",
    ),
)
_ASSIGNED: Final = re.compile(
    rf"""(?:(?<![\w.\-])|(?<=%26)|(?<=%3F))(?P<name>{_NAMES})
    (?:
        (?P<spaced>\s*=\s*)(?P<quoted>{_QUOTED})
      | (?P<sign>=|%3D)(?!\[hidden\])(?P<bare>[^\s&;,'"<>)\]}}]+)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_MEMBER: Final = re.compile(
    rf"""(?P<open>["'](?:{_NAMES}|authorization)["']\s*[:=]\s*[b]?)(?P<quoted>{_QUOTED})""",
    re.IGNORECASE | re.VERBOSE,
)
_NOT_SECRET: Final = re.compile(r"\[hidden\].*|\*+\W*|…|\.\.\.|\$\{.*|<.*|null|None|")


def redacted(text: str) -> str:
    """The text without credentials."""
    if not _MAY_CONTAIN.search(text):
        return text
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = _MEMBER.sub(lambda match: match["open"] + _hidden(match["quoted"]), text)
    return _ASSIGNED.sub(_assigned, text)


def without(text: str, values: Iterable[str]) -> str:
    """The text without these values. One that is a plain word is hidden only where it stands alone:
    not where it is part of a setting's name."""
    for value in sorted(set(values), key=len, reverse=True):
        if len(value) < _SHORTEST or value not in text:
            continue
        if _WORD.fullmatch(value):
            text = re.sub(rf"(?<![\w.\-]){re.escape(value)}(?![\w.\-])", HIDDEN, text)
        else:
            text = text.replace(value, HIDDEN)
    return text


_SHORTEST: Final = 4
_WORD: Final = re.compile("[A-Za-z]+")


def _assigned(match: re.Match[str]) -> str:
    if match["quoted"] is not None:
        return match["name"] + match["spaced"] + _hidden(match["quoted"])
    bare = match["bare"]
    return match[0] if _NOT_SECRET.fullmatch(bare) else f"{match['name']}{match['sign']}{HIDDEN}"


def _hidden(quoted: str) -> str:
    mark = quoted[0]
    return quoted if _NOT_SECRET.fullmatch(quoted[1:-1]) else f"{mark}{HIDDEN}{mark}"
