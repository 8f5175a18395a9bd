"""The HTTP server on real sockets: several listeners, some of them https, and the client that
talks to other workers."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from penstock.config.worker import parse_distributed
from penstock.errors import ConfigInvalid, StartupFailed
from penstock.host.tls import TlsSettings, server_context
from penstock.rest import app, tls
from penstock.rest.app import Context
from penstock.rest.call import Call, Response
from penstock.rest.forward import Client, Remote
from penstock.rest.routes import Route
from penstock.rest.server import Server
from penstock.testing.waiting import wait_until
from tests.servers.certificates import Authority


async def where(call: Call) -> Response:
    return Response(body={"address": call.address})


async def levels(call: Call) -> Response:
    return Response(body={"root": {"level": "INFO"}})


async def broken(call: Call) -> Response:
    raise RuntimeError("it broke")


@pytest.fixture(autouse=True)
def routes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoints that need no worker."""
    table = (
        Route("GET", "/", where),
        Route("GET", "/broken", broken),
        Route("GET", "/admin/loggers", levels),
    )
    monkeypatch.setattr(app, "ROUTES", table)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def stores(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The TLS settings of every worker, without a prefix: one certificate, one authority."""
    folder = tmp_path_factory.mktemp("stores")
    (folder / "own.pem").write_text(authority.issue("worker", "127.0.0.1", "localhost").pem())
    (folder / "trust.pem").write_text(authority.pem())
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "own.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "trust.pem"),
    }


def under(prefix: str, settings: Mapping[str, str]) -> dict[str, str]:
    return {prefix + name: text for name, text in settings.items()}


def configured(listeners: str, **props: str) -> Any:
    return parse_distributed(
        {
            "bootstrap.servers": "kafka:9092",
            "group.id": "connect",
            "config.storage.topic": "configs",
            "offset.storage.topic": "offsets",
            "status.storage.topic": "statuses",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "listeners": listeners,
            **props,
        }
    )


Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Servers that are stopped with the test; their worker is a stand-in that is ready."""
    with contextlib.ExitStack() as stack:

        def start(listeners: str, **props: str) -> Server:
            server = Server(configured(listeners, **props))
            stack.callback(server.stop)
            worker: Any = SimpleNamespace(
                state=SimpleNamespace(membership=SimpleNamespace(ready=True))
            )
            client = Client()
            stack.callback(client.close)
            server.start(Context(worker, client))
            return server

        yield start


def get(url: str, context: ssl.SSLContext | None = None, **headers: str) -> httpx.Response:
    with httpx.Client(verify=context or False, trust_env=False, timeout=10) as client:
        return client.get(url, headers=headers)


def trusting(authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(cadata=authority.pem())
    return context


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in held]


def test_http_and_https_side_by_side(
    serve: Serve, stores: dict[str, str], authority: Authority
) -> None:
    plain, secure, other = free_ports(3)
    serve(
        f"https://127.0.0.1:{secure},http://127.0.0.1:{plain},HTTPS://127.0.0.1:{other}", **stores
    )
    assert get(f"http://127.0.0.1:{plain}/").json() == {"address": f"http://127.0.0.1:{plain}"}
    for port in (secure, other):
        url = f"https://127.0.0.1:{port}"
        assert get(f"{url}/", trusting(authority)).json() == {"address": url}


@pytest.mark.parametrize(
    ("listeners", "advertised", "port"),
    [
        ("https://127.0.0.1:{0},http://127.0.0.1:{1}", None, 1),
        ("https://127.0.0.1:{0},http://127.0.0.1:{1}", "https", 0),
        ("http://127.0.0.1:{0},http://127.0.0.1:{1}", "https", 0),
        ("https://127.0.0.1:{0}", None, 0),
    ],
)
def test_the_port_is_that_of_the_advertised_listener(
    serve: Serve, stores: dict[str, str], listeners: str, advertised: str | None, port: int
) -> None:
    ports = free_ports(2)
    props = dict(stores)
    if advertised is not None:
        props["rest.advertised.listener"] = advertised
    server = serve(listeners.format(*ports), **props)
    assert server.port == ports[port]


def test_an_answer_in_plain_http_is_not_to_be_had_of_an_https_listener(
    serve: Serve, stores: dict[str, str], authority: Authority
) -> None:
    server = serve("https://127.0.0.1:0", **stores)
    with pytest.raises(httpx.TransportError):
        get(f"http://127.0.0.1:{server.port}/")
    assert get(f"https://127.0.0.1:{server.port}/", trusting(authority)).status_code == 200


def test_an_http_listener_rejects_https(serve: Serve) -> None:
    server = serve("http://127.0.0.1:0")
    with pytest.raises(httpx.TransportError):
        get(f"https://127.0.0.1:{server.port}/")
    assert get(f"http://127.0.0.1:{server.port}/").status_code == 200


def test_who_has_no_certificate_is_not_let_in_where_one_is_required(
    serve: Serve, stores: dict[str, str], authority: Authority
) -> None:
    server = serve("https://127.0.0.1:0", **stores, **{"ssl.client.auth": "required"})
    url = f"https://127.0.0.1:{server.port}/"
    with pytest.raises(httpx.TransportError):
        get(url, trusting(authority))
    config = configured("https://127.0.0.1:0", **stores)
    client = Client(tls.forwarding(config))
    try:
        assert client.send("GET", url).status_code == 200
    finally:
        client.close()


ADMIN = "/admin/loggers"


def test_admin_endpoints_are_on_the_main_listeners_unless_told_otherwise(serve: Serve) -> None:
    server = serve("http://127.0.0.1:0")
    assert server.admin_ports == ()
    assert get(f"http://127.0.0.1:{server.port}{ADMIN}").status_code == 200


def test_an_empty_list_of_admin_listeners_disables_admin_endpoints(serve: Serve) -> None:
    server = serve("http://127.0.0.1:0", **{"admin.listeners": ""})
    answer = get(f"http://127.0.0.1:{server.port}{ADMIN}")
    assert (answer.status_code, answer.json()) == (
        404,
        {"error_code": 404, "message": "HTTP 404 Not Found"},
    )
    assert get(f"http://127.0.0.1:{server.port}/").status_code == 200


def test_listeners_of_their_own_have_them_and_nothing_else(
    serve: Serve, stores: dict[str, str], authority: Authority
) -> None:
    server = serve(
        "http://127.0.0.1:0",
        **under("admin.listeners.https.", stores),
        **{
            "admin.listeners": "http://127.0.0.1:0,https://127.0.0.1:0",
            "response.http.headers.config": "set X-Here:main",
        },
    )
    plain, secure = server.admin_ports
    main = get(f"http://127.0.0.1:{server.port}/")
    assert (main.status_code, main.headers.get("x-here")) == (200, "main")
    assert get(f"http://127.0.0.1:{server.port}{ADMIN}").status_code == 404
    for base, context in (
        (f"http://127.0.0.1:{plain}", None),
        (f"https://127.0.0.1:{secure}", trusting(authority)),
    ):
        admin = get(base + ADMIN, context)
        assert (admin.status_code, admin.headers.get("x-here")) == (200, None)
        assert get(f"{base}/", context).status_code == 404


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/nothing", 404), ("/broken", 500)])
def test_headers_are_on_errors_too(serve: Serve, path: str, status: int) -> None:
    server = serve(
        "http://127.0.0.1:0",
        **{
            "response.http.headers.config": "add X-Here:yes",
            "access.control.allow.origin": "http://page.example",
        },
    )
    answer = get(f"http://127.0.0.1:{server.port}{path}", Origin="http://page.example")
    assert answer.status_code == status
    assert answer.headers["x-here"] == "yes"
    assert answer.headers["access-control-allow-origin"] == "http://page.example"
    assert answer.headers["vary"] == "Origin"


@pytest.mark.parametrize("setting", ["listeners", "admin.listeners"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_port_that_is_taken_is_named_with_its_setting_and_none_is_kept(
    stores: dict[str, str], setting: str, scheme: str
) -> None:
    [free] = free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        bad = f"{scheme}://127.0.0.1:{port}"
        props = {
            "listeners": f"http://127.0.0.1:{free},{bad}",
            "admin.listeners": bad,
        }
        if setting != "listeners":
            props["listeners"] = f"http://127.0.0.1:{free}"
        with pytest.raises(StartupFailed) as refused:
            Server(configured(**props, **stores))
        assert str(refused.value) == (
            f"Port {port} is in use; set '{setting}' to something other than {bad}."
        )
    socket.create_server(("127.0.0.1", free)).close()


@pytest.mark.parametrize("listener", ["http://192.0.2.1:8083", "http://127.0.0.1:70000"])
def test_an_address_that_cannot_be_listened_on_is_named(listener: str) -> None:
    with pytest.raises(StartupFailed) as refused:
        Server(configured(listener))
    assert str(refused.value).startswith(f"Cannot listen on {listener}, which 'listeners' names: ")


def test_a_bad_certificate_is_found_before_any_port_is_taken(tmp_path: Path) -> None:
    (tmp_path / "own.pem").write_text("nothing of the kind")
    [port] = free_ports(1)
    with pytest.raises(ConfigInvalid, match=r"listeners\.https\.ssl\.keystore\.location"):
        Server(
            configured(
                f"http://127.0.0.1:{port},https://127.0.0.1:0",
                **{
                    "listeners.https.ssl.keystore.type": "PEM",
                    "listeners.https.ssl.keystore.location": str(tmp_path / "own.pem"),
                },
            )
        )
    socket.create_server(("127.0.0.1", port)).close()


def test_stopping_gives_the_ports_back(serve: Serve, stores: dict[str, str]) -> None:
    server = serve("https://127.0.0.1:0", **stores, **{"admin.listeners": "http://127.0.0.1:0"})
    ports = [server.port, *server.admin_ports]
    server.stop()
    for port in ports:
        wait_until(lambda port=port: _can_listen(port), 10, f"port {port} to be free")


def test_stopping_a_server_that_was_never_started_frees_its_port() -> None:
    server = Server(configured("http://127.0.0.1:0"))
    assert not _can_listen(server.port)
    server.stop()
    assert _can_listen(server.port)


def _can_listen(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def asked(url: str, settings: Mapping[str, str]) -> str:
    """The error when a worker with these settings cannot forward to the URL."""
    client = Client(tls.forwarding(configured("http://127.0.0.1:0", **settings)))
    try:
        with pytest.raises(Remote) as refused:
            client.send("GET", url)
    finally:
        client.close()
    assert (refused.value.http_status, refused.value.error_code) == (500, 500)
    assert str(refused.value).startswith("IO Error trying to forward REST request: ")
    return str(refused.value)


def test_a_worker_nobody_vouches_for_is_not_asked(serve: Serve, stores: dict[str, str]) -> None:
    server = serve("https://127.0.0.1:0", **stores)
    trust = {"ssl.truststore.certificates": Authority("other").pem()}
    text = asked(f"https://127.0.0.1:{server.port}/", trust)
    assert "put its issuer into ssl.truststore.location" in text


def test_a_worker_with_another_host_name_is_rejected(
    serve: Serve, authority: Authority, stores: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "own.pem").write_text(authority.issue("elsewhere").pem())
    own = {**stores, "ssl.keystore.location": str(tmp_path / "own.pem")}
    url = f"https://127.0.0.1:{serve('https://127.0.0.1:0', **own).port}/"
    trust = {"ssl.truststore.certificates": authority.pem()}
    assert "set its rest.advertised.host.name to one it has" in asked(url, trust)
    unchecked = {**trust, "ssl.endpoint.identification.algorithm": ""}
    client = Client(tls.forwarding(configured("http://127.0.0.1:0", **unchecked)))
    try:
        assert client.send("GET", url).status_code == 200
    finally:
        client.close()


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("own", [False, True])
def test_a_worker_that_is_refused_for_its_certificate_says_so(
    serve: Serve, authority: Authority, stores: dict[str, str], protocol: str, own: bool
) -> None:
    server = serve("https://127.0.0.1:0", **stores, **{"ssl.client.auth": "required"})
    settings = {
        "ssl.enabled.protocols": protocol,
        "ssl.truststore.certificates": authority.pem(),
    }
    if own:
        stranger = Authority("other").issue("stranger")
        settings["ssl.keystore.key"] = stranger.key_pem()
        settings["ssl.keystore.certificate.chain"] = stranger.chain_pem()
    text = asked(f"https://127.0.0.1:{server.port}/", settings)
    assert "check ssl.keystore.location here and ssl.truststore.location there" in text


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    ("own", "said"),
    [(False, "ertificate"), (True, "The other worker does not accept this one's certificate: ")],
)
def test_a_refusal_in_so_many_words_is_understood(
    authority: Authority, stores: dict[str, str], protocol: str, own: bool, said: str
) -> None:
    settings = {
        "ssl.enabled.protocols": protocol,
        "ssl.truststore.certificates": authority.pem(),
    }
    if own:
        stranger = Authority("other").issue("stranger")
        settings["ssl.keystore.key"] = stranger.key_pem()
        settings["ssl.keystore.certificate.chain"] = stranger.chain_pem()
    demanding = server_context(TlsSettings({**stores, "ssl.client.auth": "required"}))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def refuse() -> None:
            accepted, _ = listening.accept()
            # Unlike asyncio's, this server sends its alert before it hangs up.
            with accepted, pytest.raises(ssl.SSLError):
                demanding.wrap_socket(accepted, server_side=True)
            refused.set()

        refused = threading.Event()
        thread = threading.Thread(target=refuse, daemon=True)
        thread.start()
        text = asked(f"https://127.0.0.1:{listening.getsockname()[1]}/", settings)
        assert refused.wait(10)
    assert said in text
    assert "check ssl.keystore.location here and ssl.truststore.location there" in text


def test_a_store_that_cannot_be_used_is_named_when_it_is_needed(tmp_path: Path) -> None:
    settings = {
        "ssl.truststore.location": str(tmp_path / "absent.p12"),
        "ssl.truststore.type": "PKCS12",
    }
    text = asked("https://127.0.0.1:1/", settings)
    assert "configuration ssl.truststore.location: the file cannot be read" in text
