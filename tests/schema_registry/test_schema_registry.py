"""Converters and the test registry over real HTTP, with Confluent's own client as the judge."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import Schema as RegistrySchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

from penstock.api.converter import Use
from penstock.data.records import Column, Failed
from penstock.data.schema import (
    BYTES,
    INT32,
    INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    Value,
    array,
    decimal,
    map_of,
    struct,
)
from penstock.errors import ConfigInvalid, DataError, Unavailable
from penstock.kafka.broker import free_port
from penstock.schema_registry.avro import AVRO_CONVERTER, AvroConverter
from penstock.testing.registry import RegistryProcess


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """One registry for the tests that need nothing special."""
    with RegistryProcess(tmp_path_factory.mktemp("registry")) as running:
        yield running


def converter(url: str, **props: str) -> AvroConverter:
    given = {name.replace("_", "."): text for name, text in props.items()}
    quick = {"max.retries": "0", "http.read.timeout.ms": "5000", "http.connect.timeout.ms": "5000"}
    config = AVRO_CONVERTER.parse({"schema.registry.url": url, **quick, **given})
    return AvroConverter(config, Use.VALUE)


def written(avro: AvroConverter, topic: str, schema: Schema | None, value: Value) -> bytes:
    failed: Failed = {}
    [cell] = avro.from_connect([topic], Column.of([value], schema), failed)
    assert not failed, failed
    assert cell is not None
    return cell


def failure(avro: AvroConverter, topic: str = "t") -> Exception:
    """What a batch fails with; the same for every row."""
    failed: Failed = {}
    rows = 5
    avro.from_connect([topic] * rows, Column.of(["x"] * rows, STRING), failed)
    assert set(failed) == set(range(rows))
    return failed[0]


RECORD = struct(
    {
        "id": INT64,
        "name": OPTIONAL_STRING,
        "tags": array(STRING),
        "by": map_of(STRING, INT32),
        "price": decimal(2),
        "raw": BYTES.as_optional(),
    },
    name="shop.Order",
)
VALUE = {
    "id": 7,
    "name": "ü",
    "tags": ["a", "b"],
    "by": {"k": 1},
    "price": Decimal("12.50"),
    "raw": None,
}


def test_confluents_deserializer_reads_what_the_converter_writes(
    registry: RegistryProcess, unique: Callable[[str], str]
) -> None:
    topic = unique("ours")
    cell = written(converter(registry.url), topic, RECORD, VALUE)
    with SchemaRegistryClient({"url": registry.url}) as client:
        read = AvroDeserializer(client)
        assert read(cell, SerializationContext(topic, MessageField.VALUE)) == VALUE
        place = client.get_latest_version(f"{topic}-value")
        assert place.schema_id == int.from_bytes(cell[1:5])


def test_the_converter_reads_and_writes_the_bytes_of_confluents_serializer(
    registry: RegistryProcess, unique: Callable[[str], str]
) -> None:
    topic = unique("theirs")
    avro = converter(registry.url)
    ours = written(avro, topic, RECORD, VALUE)
    with SchemaRegistryClient({"url": registry.url}) as client:
        text = client.get_latest_version(f"{topic}-value").schema.schema_str
        write = AvroSerializer(client, text)
        cell = write(VALUE, SerializationContext(topic, MessageField.VALUE))
    assert cell == ours
    failed: Failed = {}
    column = avro.to_connect([topic], [cell], failed)
    assert column.values == [VALUE]
    assert column.runs[0].schema is not None
    assert column.runs[0].schema.fields == RECORD.fields


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"string"', "a"),
        ('"long"', 1 << 40),
        ('"boolean"', True),
        ('["null","double"]', 0.5),
        ('{"type":"array","items":"int"}', [1, 2]),
        ('{"type":"enum","name":"E","symbols":["A","B"]}', "B"),
        ('{"type":"fixed","name":"F","size":2}', b"ab"),
    ],
)
def test_schemas_that_are_no_records_are_read(
    registry: RegistryProcess, unique: Callable[[str], str], text: str, value: Value
) -> None:
    topic = unique("simple")
    with SchemaRegistryClient({"url": registry.url}) as client:
        cell = AvroSerializer(client, text)(value, SerializationContext(topic, MessageField.VALUE))
    failed: Failed = {}
    assert converter(registry.url).to_connect([topic], [cell], failed).values == [value]


def test_confluents_client_finds_a_registry_it_knows(
    registry: RegistryProcess, unique: Callable[[str], str]
) -> None:
    inner, outer = unique("inner"), unique("outer")
    record = {"type": "record", "name": "n.A", "fields": [{"name": "x", "type": "int"}]}
    using = {"type": "record", "name": "n.B", "fields": [{"name": "a", "type": "n.A"}]}
    with SchemaRegistryClient({"url": registry.url}) as client:
        number = client.register_schema(inner, RegistrySchema(json.dumps(record), "AVRO"))
        built = RegistrySchema(json.dumps(using), "AVRO", [SchemaReference("n.A", inner, 1)])
        other = client.register_schema(outer, built)
        assert other > number
        assert client.lookup_schema(outer, built).version == 1
        assert client.get_versions(inner) == [1]
        assert inner in client.get_subjects()
        client.set_compatibility(inner, "FULL")
        assert client.get_compatibility(inner) == "FULL"
        more = {**record, "fields": [*record["fields"], {"name": "y", "type": "int"}]}
        assert not client.test_compatibility(inner, RegistrySchema(json.dumps(more), "AVRO"))
        with pytest.raises(SchemaRegistryError) as refusal:
            client.register_schema(inner, RegistrySchema(json.dumps(more), "AVRO"))
        assert (refusal.value.http_status_code, refusal.value.error_code) == (409, 409)
        with pytest.raises(SchemaRegistryError) as missing:
            client.get_latest_version("nobody")
        assert missing.value.error_code == 40401
        assert client.delete_subject(outer) == [1]


def test_answers_have_the_registrys_content_type(registry: RegistryProcess) -> None:
    with httpx.Client(base_url=registry.url, trust_env=False) as http:
        answer = http.get("/subjects")
        assert answer.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
        broken = http.post("/subjects/x/versions", content=b"{")
        assert broken.json() == {"error_code": 400, "message": "Malformed JSON"}
        odd = http.post("/subjects/a%2Fb/versions", json={"schema": '"string"'})
        assert odd.status_code == 200
        assert "a/b" in http.get("/subjects").json()
        assert http.get("/subjects/a%2Fb/metadata?key=k&value=v").json()["error_code"] == 40402


def test_the_next_url_is_asked_when_one_does_not_answer(
    registry: RegistryProcess, unique: Callable[[str], str]
) -> None:
    avro = converter(f"http://127.0.0.1:{free_port()},{registry.url}")
    assert written(avro, unique("second"), STRING, "a")


def test_no_registry_is_a_failure_that_may_pass() -> None:
    port = free_port()
    error = failure(converter(f"http://user:hush@127.0.0.1:{port}"))
    assert isinstance(error, Unavailable)
    assert error.retriable
    assert f"Schema Registry http://127.0.0.1:{port} cannot be reached" in str(error)
    assert "'schema.registry.url'" in str(error)
    assert "hush" not in str(error)


@contextmanager
def silent_server() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_registry_that_hangs_costs_one_time_out_a_batch() -> None:
    with silent_server() as url:
        avro = converter(url, http_read_timeout_ms="300", max_retries="5")
        began = time.monotonic()
        error = failure(avro)
        assert time.monotonic() - began < 2.5
    assert isinstance(error, Unavailable)
    assert "did not answer within 'http.read.timeout.ms'" in str(error)


def request_of(client: socket.socket) -> str:
    """All of the one request a client sends; closing before that would reset the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += client.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    while length and len(body) < int(length[1]):
        body += client.recv(65536)
    return head.decode("latin-1")


@contextmanager
def answering(*answers: tuple[int, bytes]) -> Iterator[tuple[str, list[str]]]:
    """A server that gives these answers in turn, the last one forever; notes the requests."""
    heads: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        ended = threading.Event()

        def serve() -> None:
            left = list(answers)
            while not ended.is_set():
                try:
                    client, _ = server.accept()
                except TimeoutError:
                    continue
                with client:
                    heads.append(request_of(client))
                    status, body = left.pop(0) if len(left) > 1 else left[0]
                    client.sendall(
                        f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n"
                        "Connection: close\r\n\r\n".encode()
                        + body
                    )

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", heads
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_registry_that_is_not_well_is_tried_again(
    status: int, unique: Callable[[str], str]
) -> None:
    sick = (status, b'{"error_code":50002,"message":"later"}')
    with answering(sick, sick, (200, b'{"id":5}')) as (url, heads):
        avro = converter(url, max_retries="2", retries_wait_ms="10")
        assert written(avro, "t", STRING, "a")[:5] == b"\0\0\0\0\5"
        assert len(heads) == 3
    with answering(sick) as (url, heads):
        error = failure(converter(url, max_retries="1", retries_wait_ms="10"))
        assert len(heads) == 2
    assert isinstance(error, Unavailable)
    assert f"answered {status}: later; error code: 50002" in str(error)


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, b'{"error_code":401,"message":"Unauthorized"}', "Unauthorized; error code: 401"),
        (403, b"<html>no</html>", "<html>no</html>; error code: 403"),
        (422, b'{"error_code":42201,"message":"Invalid"}', "Invalid; error code: 42201"),
        (200, b"<html>a proxy</html>", "did not answer in JSON"),
    ],
)
def test_a_refusal_is_not_tried_again(status: int, body: bytes, message: str) -> None:
    with answering((status, body)) as (url, heads):
        error = failure(converter(url, max_retries="5"))
        assert len(heads) == 1
    assert isinstance(error, DataError)
    assert not error.retriable
    assert message in str(error)


@pytest.mark.parametrize(
    ("props", "header"),
    [
        (
            {"basic_auth_credentials_source": "USER_INFO", "basic_auth_user_info": "u:p"},
            "authorization: Basic dTpw",
        ),
        (
            {"bearer_auth_credentials_source": "STATIC_TOKEN", "bearer_auth_token": "tok"},
            "authorization: Bearer tok",
        ),
        (
            {
                "bearer_auth_credentials_source": "STATIC_TOKEN",
                "bearer_auth_token": "tok",
                "bearer_auth_logical_cluster": "lsrc-1",
            },
            "target-sr-cluster: lsrc-1",
        ),
        ({"request_header_X-Mine": "words"}, "x-mine: words"),
        ({}, "content-type: application/vnd.schemaregistry.v1+json"),
    ],
)
def test_requests_carry_what_the_settings_say(props: Mapping[str, str], header: str) -> None:
    with answering((200, b'{"id":1}')) as (url, heads):
        written(converter(url, **props), "t", STRING, "a")
    assert header.lower() in heads[0].lower()


def test_credentials_may_stand_in_the_url() -> None:
    with answering((200, b'{"id":1}')) as (url, heads):
        written(converter(url.replace("//", "//u:p@")), "t", STRING, "a")
    assert "authorization: basic dtpw" in heads[0].lower()


def test_a_proxy_is_used_when_there_is_one() -> None:
    with answering((200, b'{"id":1}')) as (url, heads):
        port = url.rpartition(":")[2]
        avro = converter("http://registry.invalid:8081", proxy_host="127.0.0.1", proxy_port=port)
        written(avro, "t", STRING, "a")
    assert heads[0].startswith("POST http://registry.invalid:8081/subjects/t-value/versions ")


def test_a_registry_with_a_user_wants_the_password(tmp_path: Path) -> None:
    with RegistryProcess(tmp_path, user_info="me:hush") as guarded:
        assert "error code: 401" in str(failure(converter(guarded.url)))
        avro = converter(
            guarded.url, basic_auth_credentials_source="USER_INFO", basic_auth_user_info="me:hush"
        )
        assert written(avro, "t", STRING, "a")


class Certificates:
    """An authority and what it has signed, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self._own = self._sign(self._name, self._key, authority=True)
        self.trust_pem = folder / "trust.pem"
        self.trust_pem.write_bytes(self._own.public_bytes(Encoding.PEM))
        self.trust_p12 = folder / "trust.p12"
        self.trust_p12.write_bytes(
            pkcs12.serialize_key_and_certificates(
                None, None, None, [self._own], BestAvailableEncryption(b"trusty")
            )
        )
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
        certificate = self._sign(name, key)
        self.certificate, self.key = folder / "server.pem", folder / "server.key"
        self.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
        self.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        self.own_p12 = folder / "own.p12"
        self.own_p12.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"own", key, certificate, [self._own], BestAvailableEncryption(b"hush")
            )
        )

    def _sign(self, name: x509.Name, key: Any, *, authority: bool = False) -> x509.Certificate:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(authority, None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False
            )
            .add_extension(
                x509.KeyUsage(True, False, False, False, False, authority, authority, False, False),
                critical=True,
            )
            .sign(self._key, hashes.SHA256())
        )


def test_https_is_trusted_as_the_settings_say(tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    trust = "schema_registry_ssl_truststore_"
    with RegistryProcess(tmp_path, certificate=made.certificate, key=made.key) as secure:
        error = failure(converter(secure.url))
        assert isinstance(error, Unavailable)
        assert "CERTIFICATE_VERIFY_FAILED" in str(error)
        pem = {f"{trust}location": str(made.trust_pem), f"{trust}type": "PEM"}
        assert written(converter(secure.url, **pem), "t", STRING, "a")
        inline = {f"{trust}certificates": made.trust_pem.read_text(), f"{trust}type": "PEM"}
        assert written(converter(secure.url, **inline), "t", STRING, "a")
        p12 = {
            f"{trust}location": str(made.trust_p12),
            f"{trust}type": "PKCS12",
            f"{trust}password": "trusty",
        }
        assert written(converter(secure.url, **p12), "t", STRING, "a")
        by_name = secure.url.replace("127.0.0.1", "localhost")
        assert "Hostname mismatch" in str(failure(converter(by_name, **pem)))
        anyway = {"schema_registry_ssl_endpoint_identification_algorithm": ""}
        assert written(converter(by_name, **pem, **anyway), "t", STRING, "a")


@contextmanager
def asking_for_a_certificate(made: Certificates) -> Iterator[tuple[str, list[str]]]:
    """An HTTPS server that rejects unsigned clients; notes the names of the others."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    context.load_verify_locations(made.trust_pem)
    context.verify_mode = ssl.CERT_REQUIRED
    guests: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            raw, _ = server.accept()
            with context.wrap_socket(raw, server_side=True) as client:
                subject = dict(pair[0] for pair in client.getpeercert()["subject"])  # type: ignore[index,misc]
                guests.append(subject["commonName"])
                request_of(client)
                client.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"id":1}')

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.getsockname()[1]}", guests
        finally:
            thread.join()


@pytest.mark.parametrize("form", ["PKCS12", "PEM", "inline"])
def test_the_own_certificate_is_shown(tmp_path: Path, form: str) -> None:
    made = Certificates(tmp_path)
    ssl_ = "schema_registry_ssl_"
    props = {f"{ssl_}truststore_location": str(made.trust_pem), f"{ssl_}truststore_type": "PEM"}
    if form == "PKCS12":
        props |= {
            f"{ssl_}keystore_location": str(made.own_p12),
            f"{ssl_}keystore_type": "PKCS12",
            f"{ssl_}keystore_password": "hush",
        }
    elif form == "PEM":
        both = tmp_path / "both.pem"
        both.write_bytes(made.key.read_bytes() + made.certificate.read_bytes())
        props |= {f"{ssl_}keystore_location": str(both), f"{ssl_}keystore_type": "PEM"}
    else:
        props |= {
            f"{ssl_}keystore_key": made.key.read_text(),
            f"{ssl_}keystore_certificate_chain": made.certificate.read_text(),
            f"{ssl_}keystore_type": "PEM",
        }
    with asking_for_a_certificate(made) as (url, guests):
        written(converter(url, **props), "t", STRING, "a")
    assert guests == ["registry"]


def test_stores_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    ssl_ = "schema_registry_ssl_"
    bad = [
        ({f"{ssl_}truststore_location": "/no/such", f"{ssl_}truststore_type": "PEM"}, "truststore"),
        (
            {
                f"{ssl_}truststore_location": str(made.trust_p12),
                f"{ssl_}truststore_type": "PKCS12",
                f"{ssl_}truststore_password": "wrong",
            },
            "truststore",
        ),
        (
            {f"{ssl_}keystore_location": str(made.trust_pem), f"{ssl_}keystore_type": "PEM"},
            "keystore",
        ),
    ]
    for props, store in bad:
        with pytest.raises(ConfigInvalid, match=rf"schema\.registry\.ssl\.{store}\.location"):
            converter("https://127.0.0.1:1", **props)
