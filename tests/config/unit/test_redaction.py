"""Credentials are removed from texts, and nothing else is."""

from __future__ import annotations

import pytest

from penstock.config.redaction import redacted

MARK = "S3cr3t"

SECRET = [
    f"https://user:{MARK}@host:1/path",
    f"https://{MARK}@host",
    f"Failed to parse: 'https://user:{MARK}@host:port/x'",
    f"amqp://user:a/{MARK}?#@host:5672/vhost",
    f"mongodb+srv://user:{MARK}@a,b/db?x=y",
    f"redis://:{MARK}@host:6379/0",
    f"jdbc:postgresql://h:5432/db?user=me&password={MARK}",
    f"jdbc:sqlserver://h;user=me;password={MARK};encrypt=true",
    f"jdbc:mysql://me:{MARK}@h/db",
    f"jdbc:oracle:thin:me/{MARK}@h:1521/x",
    f"https://a.blob.core.windows.net/c?sv=2020&se=x&sr=c&sp=rw&sig={MARK}%3D",
    f"https://s3/x?X-Amz-Algorithm=AWS4&X-Amz-Credential={MARK}&X-Amz-Signature={MARK}",
    f"https://storage/x?X-Goog-Signature={MARK}&X-Goog-Credential={MARK}",
    f"https://storage.googleapis.com/upload?uploadType=resumable&upload_id={MARK}-_",
    f"http://h/api?api_key={MARK}",
    f"http://h/api?apikey={MARK}&page=1",
    f"http://h/hook?access_token={MARK}",
    f"http://h/hook?token={MARK}",
    f"url=http%3A%2F%2Fh%3Fa%3Db%26sig%3D{MARK}",
    f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={MARK}==;EndpointSuffix=x",
    f"Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey={MARK}=",
    f'x.PlainLoginModule required username="me" password="{MARK}";',
    f"x.ScramLoginModule required password = '{MARK} x' ;",
    f'x.OAuthBearerLoginModule required clientSecret="{MARK}";',
    f"Authorization: Basic {MARK}",
    f"{{'Authorization': 'Bearer {MARK}'}}",
    f'{{"password": "{MARK}", "user": "me"}}',
    f'{{"private_key": "-----BEGIN PRIVATE KEY-----\\n{MARK}\\n-----END PRIVATE KEY-----\\n"}}',
    f"-----BEGIN RSA PRIVATE KEY-----\n{MARK}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY----- {MARK}",
    f"ssl.keystore.password={MARK}",
    f"aws_secret_access_key={MARK}",
    f"basic.auth.user.info=me:{MARK}",
    f"INSERT INTO x SELECT * FROM y PROPERTIES('password'='{MARK}')",
]


@pytest.mark.parametrize("text", SECRET)
def test_a_credential_is_hidden_however_it_is_written(text: str) -> None:
    for around in ("{}", "Invalid value {} for configuration x: Bad URL", '"{}"', "({})"):
        shown = redacted(around.format(text))
        assert MARK not in shown
        assert "[hidden]" in shown
        assert redacted(shown) == shown


PLAIN = [
    "Invalid value http://host:80a/x for configuration http.api.url: the port is not a number",
    "http://localhost:8081/subjects/a@b/versions",
    "Connect to kafka-1:9092, kafka-2:9092",
    'Invalid value [hidden] for configuration sasl.jaas.config: no username="…" and password="…"',
    "set listeners.https.ssl.client.auth=required or ssl.keystore.key",
    "Placeholder in configuration connection.password: ${env:DB_PASSWORD}",
    "password=${file:/etc/secrets:password}",
    "check ssl.keystore.password and the token of the API",
    "unexpected token = in line 3",
    "key=value, pk.mode=record_key, partition.key=id",
    "topic=orders, partition=3, offset=7",
    "the key 'AccountKey' is missing",
    "me@example.com could not be reached",
    "The primary key=id is not in the table",
]


@pytest.mark.parametrize("text", PLAIN)
def test_texts_without_credentials_stay(text: str) -> None:
    assert redacted(text) == text
