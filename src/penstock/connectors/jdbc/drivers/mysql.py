"""MySQL and MariaDB, by PyMySQL."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from typing import Any, Final, Self

from penstock.api import PenstockError
from penstock.connectors.jdbc.drivers.connection import in_quotes
from penstock.connectors.jdbc.drivers.dbapi import DbApiConnection
from penstock.connectors.jdbc.drivers.errors import (
    DatabaseAway,
    DatabaseBusy,
    DatabaseRefused,
    RowRefused,
    other_error,
    with_advice,
)
from penstock.connectors.jdbc.drivers.url import Url, UrlInvalid

_AWAY: Final = frozenset(
    {3, 1021, 1037, 1038, 1040, 1041, 1053, 1077, 1078, 1079, 1080, 1114, 1129, 1152, 1158, 1159}
    | {1160, 1161, 1184, 1189, 1190, 1203, 1226, 1290, 1836, 1927, 2002, 2003, 2006, 2013, 2055}
    | {0, 4031}
)
_BUSY: Final = frozenset({1020, 1099, 1192, 1205, 1213, 1317, 1412, 1613, 1969, 3024, 3572})
_ROW: Final = frozenset(
    {1048, 1062, 1136, 1216, 1217, 1264, 1265, 1292, 1364, 1366, 1367, 1369, 1406, 1411, 1416, 1451}
    | {1452, 1525, 1526, 1586, 1644, 1690, 1761, 1762, 3140, 3819, 4025, 4078}
)

_TLS: Final = {
    "certificate is not valid for": "use the host name in the certificate, or skip host "
    "name verification (sslMode=VERIFY_CA)",
    **dict.fromkeys(
        ("self-signed certificate", "self signed certificate", "issuer certificate"),
        "serverSslCert must name a file with the CA of the server's certificate",
    ),
}
"""Advice about a server's certificate, by words of OpenSSL's message; its other messages need
none."""


class MysqlConnection(DbApiConnection):
    """A PyMySQL connection, to MySQL or MariaDB."""

    modules = ("pymysql",)

    @classmethod
    def open(cls, url: Url) -> Self:
        import pymysql

        failure: Exception | None = None
        for host, port in url.hosts:
            try:
                return cls(url, _connected(host, port, url))
            except (pymysql.err.OperationalError, OSError) as error:
                failure = error
                if not isinstance(cls.error_of(error), DatabaseAway):
                    raise
        assert failure is not None
        raise failure

    @staticmethod
    def error_of(error: Exception) -> PenstockError:
        import pymysql

        if not isinstance(error, pymysql.err.Error):
            return other_error(error)
        code = error.args[0] if error.args and isinstance(error.args[0], int) else None
        message = str(error.args[1]) if len(error.args) > 1 else str(error)
        text = f"{message} (error {code})" if code else message
        if code == 2003 and "certificate verify failed" in message:
            return DatabaseRefused(with_advice(text, _TLS))
        if code in _AWAY:
            return DatabaseAway(text or "the connection was lost")
        if code in _BUSY:
            return DatabaseBusy(text)
        if code in _ROW or isinstance(error, pymysql.err.DataError | pymysql.err.IntegrityError):
            return RowRefused(text)
        return DatabaseRefused(text)

    @property
    def is_open(self) -> bool:
        return bool(self.raw.open)

    def isolate(self, level: str) -> None:
        self.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")

    def _begin(self, isolation: str, writing: bool) -> None:
        if isolation:
            self.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
        self.execute("START TRANSACTION")

    def _streaming(self) -> Any:
        from pymysql.cursors import SSCursor

        return self.raw.cursor(SSCursor)


def _connected(host: str, port: int, url: Url) -> Any:
    import pymysql
    from pymysql.constants import CLIENT

    options = url.options
    create = options.get("create_database")
    connect: Any = pymysql.connect
    raw = connect(
        host=host,
        port=port,
        user=url.user or "",
        password=url.password.value if url.password else "",
        database=None if create or not url.database else url.database,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=int(options.get("connect_timeout", 10)),
        read_timeout=int(options["read_timeout"]) if "read_timeout" in options else None,
        local_infile=bool(options.get("local_infile", False)),
        client_flag=CLIENT.FOUND_ROWS,  # count rows as the JVM's drivers do: found, not changed
        **_tls(url),
    )
    try:
        with contextlib.closing(raw.cursor()) as cursor:
            if create and url.database:
                name = in_quotes(url.database, ("`", "`"))
                cursor.execute(f"CREATE DATABASE IF NOT EXISTS {name}")
                raw.select_db(url.database)
            if variables := options.get("variables"):
                cursor.execute(f"SET SESSION {variables}")
    except BaseException:
        raw.close()
        raise
    return raw


def _tls(url: Url) -> dict[str, Any]:
    mode = url.options.get("ssl", "preferred")
    files = {
        name: str(url.options[name])
        for name in ("ssl_ca", "ssl_cert", "ssl_key")
        if name in url.options
    }
    if mode == "disabled":
        return {"ssl_disabled": True}
    if mode == "preferred" and not files:
        return {}
    with _usable("serverSslCert", files.get("ssl_ca")):
        context = ssl.create_default_context(cafile=files.get("ssl_ca"))
    context.check_hostname = mode == "verify-full"
    if mode in ("preferred", "required"):
        context.verify_mode = ssl.CERT_NONE
    if "ssl_cert" in files:
        with _usable("sslCert (and sslKey)", files["ssl_cert"]):
            context.load_cert_chain(files["ssl_cert"], files.get("ssl_key"))
    return {"ssl": context}


@contextlib.contextmanager
def _usable(parameter: str, file: str | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # ssl.SSLError is one
        raise UrlInvalid(f"cannot use the file '{file}' of {parameter}: {error}") from error
