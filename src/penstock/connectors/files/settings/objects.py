"""The settings that connectors to object stores have in common, under different names for each
store (connectors.md §13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
    Check,
    Config,
    Group,
    Key,
    Secret,
    checking,
)
from penstock.connectors.files.settings.names import checked_name
from penstock.connectors.files.settings.sink import (
    TOPICS_DIR,
    CompressionKeys,
    plan_of,
)
from penstock.connectors.files.stores.s3 import proxy_url
from penstock.connectors.files.write.plan import SinkPlan

_LONGEST: Final = 900  # bytes of a folder's name; an object's has 1,024


def url_check(form: str = "http://host:port") -> Check:
    """Checks that a text is a URL of this form."""

    def problem(url: str | None) -> str | None:
        if not url or url.startswith(("http://", "https://")):
            return None
        return f"It is not of the form {form}"

    return checking("a URL", problem)


def store_url(group: Group, doc: str, form: str = "http://host:port") -> Key[str | None]:
    """The address of a store other than the vendor's."""
    return group.text("store.url", None, doc, check=url_check(form), importance=HIGH)


def part_size(group: Group, name: str, most: int, of: str = "part", order: int = -1) -> Key[int]:
    """The size of the parts in which objects are uploaded."""
    objects = {"part": "objects", "block": "blobs"}[of]
    doc = (
        f"The size of a {of}, in bytes. Larger {objects} are uploaded in {of}s while they are "
        "written; an open file keeps up to three in memory."
    )
    return group.number(
        *(name, 26_214_400, doc), at_least=5_242_880, at_most=most, importance=HIGH, order=order
    )


def retries(group: Group, name: str, *, least: int = 0, order: int = -1) -> Key[int]:
    """How often a request is retried."""
    doc = (
        "How often a request is retried before the task pauses. The task then retries indefinitely."
    )
    return group.number(name, 3, doc, at_least=least, importance=MEDIUM, order=order)


def conditional(group: Group, name: str) -> Key[bool]:
    """Whether to keep other tasks' files."""
    doc = (
        "Whether, with `rotate.schedule.interval.ms` and without files of keys and headers, "
        "objects that another task has stored are not overwritten, so that a restart repeats no "
        "record."
    )
    return group.flag(name, True, doc, importance=LOW)


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy between tasks and a store."""

    url: Key[str]
    user: Key[str | None]
    password: Key[Secret]

    def of(self, config: Config) -> str | None:
        """The proxy's URL, with its user; None if there is none."""
        url = config[self.url]
        return proxy_url(url, config[self.user], config[self.password]) if url else None


def proxy(group: Group, prefix: str, *, user: str | None = "", order: int = -1) -> Proxy:
    """Proxy keys; names begin with `prefix`. `user`: the default."""
    url, password = f"{prefix}.proxy.url", f"{prefix}.proxy.password"
    http = "An HTTP proxy: http://host:port."
    return Proxy(
        group.text(url, "", http, check=url_check(), importance=LOW, order=order),
        group.text(f"{prefix}.proxy.user", user, "The proxy's user.", importance=LOW),
        group.secret(password, "", "The proxy's password.", importance=LOW),
    )


def amazon_reasons(access: str, secret: str, region: str) -> dict[str, str]:
    """Which of these settings is to blame, by the error code of S3."""
    return {
        "InvalidAccessKeyId": access,
        "SignatureDoesNotMatch": secret,
        "PermanentRedirect": region,
        "AuthorizationHeaderMalformed": region,
        "IllegalLocationConstraintException": region,
    }


def name_to_check(config: Config) -> str:
    """A name that the sink could use, but does not."""
    root = config[TOPICS_DIR]
    return f"{root}/.penstock" if root else ".penstock"


def named_object(text: str) -> str:
    """A folder's name, unchanged. Raises DataError if it cannot be one."""
    return checked_name(text, text, "an object", _LONGEST)


def object_plan(
    config: Config, compression: CompressionKeys, create_only: Key[bool], ignored: Sequence[str]
) -> SinkPlan:
    """The plan of a valid configuration of a sink. `create_only`: whether a task leaves files of
    other tasks unchanged, if files end by the clock and have no files of keys or headers."""
    plan = plan_of(
        config,
        compression=compression,
        named=named_object,
        ignored=ignored,
    )
    alone = plan.keys is None and plan.headers is None
    return replace(
        plan, create_only=config[create_only] and plan.rules.schedule_ms is not None and alone
    )
