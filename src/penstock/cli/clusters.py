"""Selects the workers: `--url`, `--cluster`, the environment, and the file of clusters.

    default = "dev"

    [clusters.dev]
    url = "http://localhost:8083"

    [clusters.prod]
    url = ["https://c1:8083", "https://c2:8083"]  # tried in turn
    user = "ops"
    password_file = "prod.password"               # relative to the folder of the file
    ca = "ca.pem"

The command line takes precedence over the environment, that over the file; the default is a worker
on this machine. Credentials go only to the cluster that they are configured for, or to the `--url`
that contains them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from penstock.cli.exits import Unusable

if TYPE_CHECKING:
    import ssl

LOCAL: Final = "http://localhost:8083"
"""The default listener of a worker (kafka-connect.md §1.1)."""

_TEXTS: Final = ("user", "password_file", "ca", "cert", "key")
_MEMBERS: Final = ("url", "verify", *_TEXTS)


@dataclass(frozen=True, slots=True)
class WorkerAddress:
    """One worker: its URL, and the user and password in it."""

    url: str  # no credentials, no slash at the end
    auth: tuple[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The workers of one cluster, its credentials and TLS settings."""

    name: str | None
    addresses: tuple[WorkerAddress, ...]
    user: str | None = None
    password_file: Path | None = None
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    verify: bool = True
    origin: str = field(default="", compare=False)  # who named the addresses, as a sentence

    def auth(self, address: WorkerAddress) -> tuple[str, str] | None:
        """User and password for one of the addresses. Raises Unusable for an unreadable file."""
        if address.auth is not None or self.user is None:
            return address.auth
        assert self.password_file is not None, "the reader asks for one"
        try:
            return self.user, self.password_file.read_text().rstrip("\r\n")
        except (OSError, ValueError) as error:
            raise Unusable(
                f"Cannot read the password file '{self.password_file}': {error}"
            ) from error

    def tls(self) -> ssl.SSLContext:
        """The TLS context for https. Raises Unusable for invalid files."""
        import ssl  # slow to load, and only https needs it

        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            paths = ", ".join(str(path) for path in (self.ca, self.cert, self.key) if path)
            raise Unusable(
                f"Cannot use the TLS files of {self.title} ({paths}): {error}"
            ) from error
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    @property
    def title(self) -> str:
        return f"the cluster '{self.name}'" if self.name else "the worker"


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters in the file; empty without one."""

    file: Path
    by_name: Mapping[str, Cluster] = field(default_factory=dict)
    default: str | None = None

    def named(self, name: str) -> Cluster:
        """Raises Unusable, with the known names, for an unknown one."""
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise Unusable(
                f"There is no cluster '{name}' in {self.file} (known: {known}).",
                "`penstock clusters` lists them; docs/cli.md describes the file.",
            )
        return self.by_name[name]

    def chosen(self) -> str | None:
        """The name of the cluster that is used by default: the file's default, or the only one."""
        return self.default or (next(iter(self.by_name)) if len(self.by_name) == 1 else None)


def config_file(environ: Mapping[str, str]) -> Path:
    """The configuration file: PENSTOCK_CONFIG, otherwise in the user's configuration folder."""
    if path := environ.get("PENSTOCK_CONFIG"):
        return Path(path).expanduser()
    folder = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "penstock" / "config.toml"


def read_clusters(environ: Mapping[str, str]) -> Clusters:
    """The clusters in the file. Raises Unusable when it cannot be read or is invalid. A missing
    file is an error only if PENSTOCK_CONFIG names it."""
    file = config_file(environ)
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        if environ.get("PENSTOCK_CONFIG"):
            raise Unusable(f"PENSTOCK_CONFIG names '{file}', which does not exist.") from error
        return Clusters(file)
    except (OSError, ValueError) as error:
        raise Unusable(f"Cannot read {file}: {error}") from error
    _only(document, ("default", "clusters"), file, "")
    tables = document.get("clusters", {})
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise Unusable(f"{file}: 'clusters' must contain tables, written [clusters.NAME].")
    by_name = {name: _cluster(name, table, file) for name, table in tables.items()}
    default = document.get("default")
    if default is not None and default not in by_name:
        raise Unusable(f"{file}: the default {default!r} is not one of its clusters.")
    return Clusters(file, by_name, default)


def choose(url: str | None, cluster: str | None, environ: Mapping[str, str]) -> Cluster:
    """The selected cluster. `url` and `cluster` are the command line's; with both, the cluster's
    credentials are used for the workers at `url`."""
    by_url, by_name = "--url names it.", "--cluster names it."
    if url is None and cluster is None:
        url, cluster = environ.get("PENSTOCK_URL") or None, environ.get("PENSTOCK_CLUSTER") or None
        by_url, by_name = "PENSTOCK_URL names it.", "PENSTOCK_CLUSTER names it."
    if url is not None and cluster is None:
        return Cluster(None, addresses(url), origin=by_url)
    clusters = read_clusters(environ)
    name = cluster or clusters.chosen()
    if name is None:
        origin = (
            "That is the default: --url, --cluster, PENSTOCK_URL and PENSTOCK_CLUSTER are not "
            f"set, and {clusters.file} selects no cluster."
        )
        return Cluster(None, addresses(LOCAL), origin=origin)
    selected = clusters.named(name)
    if url is not None:
        return replace(selected, addresses=addresses(url), origin=by_url)
    of_file = f"It is the cluster '{name}' in {clusters.file}"
    return replace(selected, origin=f"{of_file}; {by_name}" if cluster else f"{of_file}.")


def addresses(text: str) -> tuple[WorkerAddress, ...]:
    """The workers in a comma-separated list of URLs; `http://` may be left out.

    >>> addresses("c1:8083, https://me:p%40ss@c2/connect/")[1].url
    'https://c2/connect'
    """
    workers = tuple(_address(url.strip()) for url in text.split(",") if url.strip())
    if not workers:
        raise Unusable("The URL is empty.", f"Write it like {LOCAL}.")
    return workers


def _address(text: str) -> WorkerAddress:
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _no_url(text) from error
    if parts.scheme not in ("http", "https") or not host or port == 0 or parts.query:
        raise _no_url(text)
    place = urlunsplit(
        (parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", "")
    )
    if parts.username is None:
        return WorkerAddress(place)
    return WorkerAddress(place, (unquote(parts.username), unquote(parts.password or "")))


def _no_url(text: str) -> Unusable:
    # The text before the @ may be a password.
    return Unusable(
        f"'{text.rpartition('@')[2]}' is not the URL of a worker.", f"Write it like {LOCAL}."
    )


def _cluster(name: str, table: Mapping[str, object], file: Path) -> Cluster:
    prefix = f"[clusters.{name}]: "
    _only(table, _MEMBERS, file, prefix)
    configured = table.get("url")
    urls = [configured] if isinstance(configured, str) else configured
    if not isinstance(urls, list) or not urls or not all(isinstance(url, str) for url in urls):
        raise Unusable(f"{file}: {prefix}'url' must be a string or a list of strings.")
    verify = table.get("verify", True)
    if not isinstance(verify, bool):
        raise Unusable(f"{file}: {prefix}'verify' must be true or false.")
    texts: dict[str, str] = {}
    for member in _TEXTS:
        value = table.get(member)
        if value is None:
            continue
        if not isinstance(value, str) or not value:
            raise Unusable(f"{file}: {prefix}'{member}' must be a string.")
        texts[member] = value
    if ("user" in texts) != ("password_file" in texts):
        raise Unusable(f"{file}: {prefix}'user' and 'password_file' must be set together.")
    if "key" in texts and "cert" not in texts:
        raise Unusable(f"{file}: {prefix}'key' requires a 'cert'.")

    def path(member: str) -> Path | None:
        text = texts.get(member)
        return None if text is None else file.parent / Path(text).expanduser()

    return Cluster(
        name,
        addresses(",".join(urls)),
        texts.get("user"),
        path("password_file"),
        path("ca"),
        path("cert"),
        path("key"),
        verify,
    )


def _only(table: Mapping[str, object], known: Sequence[str], file: Path, prefix: str) -> None:
    unknown = [name for name in table if name not in known]
    if unknown:
        hint = " Set password_file to a file that contains it." if "password" in unknown else ""
        raise Unusable(
            f"{file}: {prefix}'{unknown[0]}' is unknown; known: {', '.join(known)}.{hint}"
        )
