"""The settings of registry converters: what is read, what is refused, and the messages."""

from __future__ import annotations

import pytest

from penstock.config.define import Secret
from penstock.errors import ConfigInvalid
from penstock.schema_registry import settings
from penstock.schema_registry.settings import REGISTRY

URL = {"schema.registry.url": "http://localhost:8081"}

DEFAULTS = {
    "max.schemas.per.subject": 1000,
    "normalize.schemas": False,
    "auto.register.schemas": True,
    "use.schema.id": -1,
    "id.compatibility.strict": True,
    "use.latest.version": False,
    "latest.compatibility.strict": True,
    "latest.cache.size": 1000,
    "latest.cache.ttl.sec": -1,
    "use.latest.with.metadata": None,
    "basic.auth.credentials.source": "URL",
    "bearer.auth.credentials.source": "STATIC_TOKEN",
    "proxy.host": "",
    "proxy.port": -1,
    "http.connect.timeout.ms": 60000,
    "http.read.timeout.ms": 60000,
    "max.retries": 3,
    "retries.wait.ms": 1000,
    "retries.max.wait.ms": 20000,
    "schemas.cache.config": 1000,
    "generalized.sum.type.support": False,
    "ignore.default.for.nullables": False,
    "schema.registry.ssl.keystore.type": "JKS",
    "schema.registry.ssl.endpoint.identification.algorithm": "https",
    "context.name.strategy": "io.confluent.kafka.serializers.context.NullContextNameStrategy",
    "rule.service.loader.enable": True,
}


def test_defaults_are_those_of_confluents_converters() -> None:
    config = REGISTRY.parse(URL)
    assert {name: config[REGISTRY[name]] for name in DEFAULTS} == DEFAULTS


def test_the_url_is_the_only_setting_needed() -> None:
    with pytest.raises(ConfigInvalid, match=r"schema\.registry\.url"):
        REGISTRY.parse({})


@pytest.mark.parametrize(
    ("url", "ok"),
    [
        ("http://a:8081,https://b", True),
        ("mock://scope", True),
        ("mock://scope,http://a", False),
        ("ftp://a", False),
        ("localhost:8081", False),
        ("http://", False),
        ("", False),
    ],
)
def test_urls_are_checked(url: str, ok: bool) -> None:
    problems = REGISTRY.validate({"schema.registry.url": url})[1].errors
    assert bool(problems) is not ok


@pytest.mark.parametrize(
    ("props", "problem"),
    [
        ({"schema.registry.ssl.truststore.location": "trust.jks"}, "Only Java can read JKS stores"),
        (
            {
                "schema.registry.ssl.keystore.location": "key.jks",
                "schema.registry.ssl.keystore.type": "jks",
            },
            "pkcs12",
        ),
        ({"schema.registry.ssl.keystore.type": "BKS"}, "can be PEM or PKCS12"),
        ({"basic.auth.credentials.source": "SASL_INHERIT"}, "must be one of: URL, USER_INFO"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "it must be user:password"),
        ({"bearer.auth.credentials.source": "OAUTHBEARER"}, "must be one of: STATIC_TOKEN"),
        ({"bearer.auth.issuer.endpoint.url": "http://idp"}, "is not supported"),
        ({"value.subject.name.strategy": "org.example.Mine"}, "must be one of"),
        ({"context.name.strategy": "org.example.Mine"}, "is not supported"),
        ({"rule.executors": "encrypt"}, "is not supported"),
        (
            {
                "value.schema.id.serializer": "io.confluent.kafka.serializers.schema.id."
                "HeaderSchemaIdSerializer"
            },
            "A schema id in headers is not supported",
        ),
        ({"proxy.host": "proxy"}, "proxy.host needs a port"),
    ],
)
def test_unsupported_settings_are_refused(props: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigInvalid, match=problem):
        REGISTRY.parse({**URL, **props})


def test_pem_and_pkcs12_stores_are_fine() -> None:
    config = REGISTRY.parse(
        {
            **URL,
            "schema.registry.ssl.truststore.location": "trust.pem",
            "schema.registry.ssl.truststore.type": "PEM",
            "schema.registry.ssl.keystore.location": "own.p12",
            "schema.registry.ssl.keystore.type": "pkcs12",
            "schema.registry.ssl.keystore.password": "hush",
        }
    )
    assert config[settings.KEYSTORE_PASSWORD] == Secret("hush")
    assert "hush" not in repr(config)


def test_javas_defaults_are_accepted_when_they_are_given() -> None:
    REGISTRY.parse(
        {
            **URL,
            "context.name.strategy": settings.NO_CONTEXT,
            "value.schema.id.deserializer": settings.ID_FROM_BOTH,
            "rule.executors": "",
            "use.latest.with.metadata": "major=2",
        }
    )
