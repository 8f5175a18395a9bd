"""The properties of JVM drivers' URLs that change values, tables or rows, for source and sink.

A property that acts here as in its driver is translated in `drivers.url` (`ACTING` names it). One
that would act in the driver and cannot here is refused, unless its value asks for what happens here
anyway (`REFUSED`). All others tune the JVM's driver; they are logged once.

The lists follow the documentation of pgjdbc 42.7, Connector/J 9, MariaDB Connector/J 3 (and 2) and
sqlite-jdbc 3. Other databases' own drivers read their URLs themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a property is refused; `harmless` are the values (lower case) that change nothing."""

    why: str
    harmless: frozenset[str] = frozenset()


def _unless(harmless: str, why: str) -> Refusal:
    return Refusal(why, frozenset(harmless.split()))


_OFF: Final = "false no 0 off"
_ON: Final = "true yes 1 on"
_UTF8: Final = _unless(
    "utf-8 utf8 utf8mb3 utf8mb4", "texts are always sent and received as UTF-8; remove it"
)
_CLASS: Final = _unless("", "classes of the JVM are not supported; remove it")
_FOUND_ROWS: Final = _unless(_OFF, "an UPDATE counts the rows it finds; remove it")
_STRINGS: Final = _unless(
    _OFF, "bytes stay bytes; convert the column in 'query', or the field by a transform"
)
_SECONDS: Final = _unless(
    _ON, "fractions of seconds are always sent; declare the column without them, or remove it"
)

_MYSQL: Final[Mapping[str, Refusal]] = {
    "blobsAreStrings": _STRINGS,
    "functionsNeverReturnBlobs": _STRINGS,
    "useBlobToStoreUTF8OutsideBMP": _STRINGS,
    "useOldUTF8Behavior": _unless(_OFF, "texts are always sent and received as UTF-8; remove it"),
    "characterEncoding": _UTF8,
    "characterSetResults": _UTF8,
    "useUnicode": _unless(_ON, "texts are always sent and received as UTF-8; remove it"),
    "emulateLocators": _unless(_OFF, "columns are read as they are; remove it"),
    "padCharsWithSpace": _unless(_OFF, "texts are not padded; use RPAD in 'query'"),
    "maxRows": _unless("-1 0", "rows are never left out; use query.suffix=LIMIT …"),
    "sendFractionalSeconds": _SECONDS,
    "sendFractionalSecondsForTime": _SECONDS,
    "useAffectedRows": _FOUND_ROWS,
    "nullDatabaseMeansCurrent": _unless(_ON, "set catalog.pattern=% to read all databases"),
    "nullCatalogMeansCurrent": _unless(_ON, "set catalog.pattern=% to read all databases"),
    "queryInterceptors": _CLASS,
    "statementInterceptors": _CLASS,
    "connectionLifecycleInterceptors": _CLASS,
    "propertiesTransform": _CLASS,
    "useConfigs": _unless("", "name the properties themselves"),
}
_MARIADB: Final[Mapping[str, Refusal]] = {
    **{
        name: _MYSQL[name]
        for name in (
            *("blobsAreStrings", "characterEncoding", "maxRows", "useAffectedRows"),
            *("nullDatabaseMeansCurrent", "nullCatalogMeansCurrent"),
        )
    },
    "initSql": _unless("", "use sessionVariables"),
    "transactionIsolation": _unless("", "use transaction.isolation.mode"),
}
_POSTGRESQL: Final[Mapping[str, Refusal]] = {
    "convertBooleanToNumeric": _unless(_OFF, "a boolean is a BOOLEAN; cast it in 'query'"),
    "hideUnprivilegedObjects": _unless(
        _OFF, "name the tables in table.whitelist or table.include.list"
    ),
    "replication": _unless(_OFF, "such a connection cannot read tables; remove it"),
    "stringtype": _unless(
        "varchar unspecified", "it is varchar or unspecified; a text takes its column's type"
    ),
}
_SQLITE: Final[Mapping[str, Refusal]] = {
    "date_class": _unless("integer", "moments are written as milliseconds; remove it"),
    "date_precision": _unless("milliseconds", "moments are in milliseconds; remove it"),
    "date_string_format": _unless("", "texts are read in ISO's format; remove it"),
    "cipher": _unless("", "encrypted files are not supported"),
    "hexkey_mode": _unless("none", "encrypted files are not supported"),
    "key": _unless("", "encrypted files are not supported"),
    "password": _unless("", "encrypted files are not supported"),
}

REFUSED: Final[Mapping[str, Mapping[str, Refusal]]] = {
    "postgresql": _POSTGRESQL,
    "mysql": _MYSQL,
    "mariadb": _MARIADB,
    "sqlite": _SQLITE,
}
"""What is refused, by scheme and name."""

_MYSQL_ACTING: Final = (
    "user password sslMode useSSL requireSSL verifyServerCertificate serverSslCert sslCert "
    "sslKey trustServerCertificate disableSslHostnameVerification connectTimeout socketTimeout "
    "sessionVariables createDatabaseIfNotExist allowLoadLocalInfile tinyInt1isBit "
    "transformedBitIsBoolean yearIsDateType zeroDateTimeBehavior connectionCollation "
    "connectionTimeZone serverTimezone forceConnectionTimeZoneToSession timezone"
).split()
ACTING: Final[Mapping[str, frozenset[str]]] = {
    "postgresql": frozenset(
        "user password ssl sslmode sslcert sslkey sslrootcert sslpassword sslNegotiation "
        "ApplicationName channelBinding gssEncMode kerberosServerName requireAuth targetServerType "
        "loadBalanceHosts tcpKeepAlive connectTimeout loginTimeout socketTimeout options "
        "currentSchema readOnly".split()
    ),
    "mysql": frozenset(_MYSQL_ACTING),
    "mariadb": frozenset(_MYSQL_ACTING),
    "sqlite": frozenset(),
}
"""What acts here as in the driver, by scheme; of SQLite, the pragmas and those of a `file:` URI."""

IGNORING_CASE: Final = ("mysql", "mariadb")
"""Schemes whose drivers ignore the case of names."""


def refusal(scheme: str, parameters: Mapping[str, str]) -> str | None:
    """Why a URL's parameters cannot be used; None if they can."""
    rules = REFUSED[scheme]
    if scheme in IGNORING_CASE:
        rules = {name.lower(): rule for name, rule in rules.items()}
    for name, value in parameters.items():
        rule = rules.get(name.lower() if scheme in IGNORING_CASE else name)
        if rule is not None and value.strip().lower() not in rule.harmless:
            return f"{name}={value}: {rule.why}"
    return None


def without_effect(scheme: str, parameters: Mapping[str, str]) -> tuple[str, ...]:
    """The parameters that have no effect here."""
    known = ACTING[scheme] | REFUSED[scheme].keys()
    if scheme in IGNORING_CASE:
        known = frozenset(name.lower() for name in known)
        return tuple(name for name in parameters if name.lower() not in known)
    return tuple(name for name in parameters if name not in known)
