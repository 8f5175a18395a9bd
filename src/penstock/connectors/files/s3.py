"""The sink to S3 (connectors.md §13)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
)
from penstock.api.settings import Config
from penstock.connectors.files.settings import s3 as keys
from penstock.connectors.files.settings.extra import FILES, modules_of
from penstock.connectors.files.settings.sink import TOPICS_DIR
from penstock.connectors.files.sinks import FileSink
from penstock.connectors.files.stores.s3 import Refused, S3Store
from penstock.connectors.files.stores.store import Store, StoreUnavailable
from penstock.connectors.files.write.plan import SinkPlan

_CHECK_S: Final = 5
_SETTINGS: Final[Mapping[str, str]] = {
    "InvalidAccessKeyId": keys.ACCESS_KEY.name,
    "SignatureDoesNotMatch": keys.SECRET_KEY.name,
    "ExpiredToken": keys.SESSION_TOKEN.name,
    "InvalidToken": keys.SESSION_TOKEN.name,
    "PermanentRedirect": keys.REGION.name,
    "AuthorizationHeaderMalformed": keys.REGION.name,
    "IllegalLocationConstraintException": keys.REGION.name,
}
"""The setting that is wrong, by what S3 says; else it is the bucket."""


class S3Sink(FileSink):
    """Writes records into objects of a bucket."""

    plugin = Plugin(
        class_name="io.confluent.connect.s3.S3SinkConnector",
        version=VERSION,
        config=keys.S3_SINK,
        task_class="io.confluent.connect.s3.S3SinkTask",
        extra=FILES,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return ["boto3", *modules_of(config)]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        options = keys.s3_options(config, config.props.get("name", ""))
        store = S3Store(replace(options, retries=0, timeout_s=_CHECK_S))
        root = config[TOPICS_DIR]
        try:
            store.check(f"{root}/.penstock" if root else ".penstock")
        except Refused as error:
            yield Finding(_SETTINGS.get(error.s3_code, keys.BUCKET.name), str(error))
        except StoreUnavailable as error:
            yield Finding(keys.STORE_URL.name if options.url else keys.REGION.name, str(error))
        finally:
            store.close()

    def plan(self, config: Config) -> SinkPlan:
        return keys.s3_plan(config)

    def store(self, config: Config, connector: str) -> Store:
        return S3Store(keys.s3_options(config, connector))
