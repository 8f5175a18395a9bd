"""The sink to S3 under the name and with the settings of Aiven's connector (connectors.md §13)."""

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
from penstock.connectors.files.settings import aiven as keys
from penstock.connectors.files.settings.extra import FILES
from penstock.connectors.files.sinks import FileSink
from penstock.connectors.files.stores.s3 import Refused, S3Store
from penstock.connectors.files.stores.store import Store, StoreUnavailable
from penstock.connectors.files.write.plan import SinkPlan

_CHECK_S: Final = 5
_SETTINGS: Final[Mapping[str, str]] = {
    "InvalidAccessKeyId": keys.ACCESS_KEY.name,
    "SignatureDoesNotMatch": keys.SECRET_KEY.name,
    "PermanentRedirect": keys.REGION.name,
    "AuthorizationHeaderMalformed": keys.REGION.name,
    "IllegalLocationConstraintException": keys.REGION.name,
}
"""The setting that is wrong, by what S3 says; else it is the bucket."""


class AivenS3Sink(FileSink):
    """Writes records into objects of a bucket whenever offsets are committed."""

    plugin = Plugin(
        class_name="io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
        version=VERSION,
        config=keys.AIVEN_S3_SINK,
        task_class="io.aiven.kafka.connect.s3.S3SinkTask",
        extra=FILES,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        avro = config[keys.OUTPUT_TYPE].lower() == "avro"
        return ["boto3", "fastavro"] if avro else ["boto3"]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        options = keys.aiven_options(config, config.props.get("name", ""))
        store = S3Store(replace(options, retries=0, timeout_s=_CHECK_S))
        prefix = (config[keys.PREFIX] or "").partition("{{")[0]
        try:
            store.check(f"{prefix}.penstock")
        except Refused as error:
            yield Finding(_SETTINGS.get(error.s3_code, keys.BUCKET.name), str(error))
        except StoreUnavailable as error:
            yield Finding(keys.ENDPOINT.name if options.url else keys.REGION.name, str(error))
        finally:
            store.close()

    def plan(self, config: Config) -> SinkPlan:
        return keys.aiven_plan(config)

    def store(self, config: Config, connector: str) -> Store:
        return S3Store(keys.aiven_options(config, connector))
