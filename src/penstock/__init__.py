"""penstock: Kafka Connect's distributed mode in Python, its data pipeline on Spark."""

from typing import Final

VERSION: Final = "0.1.0"
"""The version of penstock itself."""

KAFKA_VERSION: Final = "4.3.1"
"""The Kafka Connect release whose behaviour is matched; `GET /` and built-in plugins report it."""

KAFKA_COMMIT: Final = "26b251a451ce941d"
"""The commit that release reports in `GET /`."""
