"""The settings that connectors to object stores have in common, under different names for each
store (connectors.md §13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LOW,
    MEDIUM,
    PASSWORD,
    STRING,
    Check,
    Config,
    Key,
    Secret,
    at_least,
    between,
    checking,
)
from penstock.connectors.files.settings.names import checked_name
from penstock.connectors.files.settings.sink import (
    COMPRESSION_CHECK,
    COMPRESSION_DOC,
    LEVEL_CHECK,
    LEVEL_DOC,
    TOPICS_DIR,
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


def store_url(group: str, order: int, doc: str, form: str = "http://host:port") -> Key[str | None]:
    """The address of a store other than the vendor's."""
    return Key(
        "store.url",
        STRING,
        default=None,
        importance=HIGH,
        check=url_check(form),
        doc=doc,
        group=group,
        order=order,
    )


def part_size(name: str, group: str, order: int, most: int, of: str = "part") -> Key[int]:
    """The size of the parts in which objects are uploaded."""
    objects = {"part": "objects", "block": "blobs"}[of]
    return Key(
        name,
        INT,
        default=26_214_400,
        importance=HIGH,
        check=between(5_242_880, most),
        doc=f"The size of a {of}, in bytes. Larger {objects} are uploaded in {of}s while they are "
        "written; an open file keeps up to three in memory.",
        group=group,
        order=order,
    )


def retries(name: str, group: str, order: int, least: int = 0) -> Key[int]:
    """How often a request is retried."""
    return Key(
        name,
        INT,
        default=3,
        importance=MEDIUM,
        check=at_least(least),
        doc="How often a request is retried before the task pauses. The task then retries "
        "indefinitely.",
        group=group,
        order=order,
    )


def conditional(name: str, group: str, order: int) -> Key[bool]:
    """Whether to keep other tasks' files."""
    return Key(
        name,
        BOOLEAN,
        default=True,
        importance=LOW,
        doc="Whether, with `rotate.schedule.interval.ms` and without files of keys and headers, "
        "objects that another task has stored are not overwritten, so that a restart repeats no "
        "record.",
        group=group,
        order=order,
    )


@dataclass(frozen=True, slots=True)
class Compression:
    """How objects are compressed."""

    type: Key[str]
    level: Key[int]


def compression(prefix: str, group: str, order: int) -> Compression:
    """Compression keys; names begin with `prefix`."""
    return Compression(
        Key(
            f"{prefix}.compression.type",
            STRING,
            default="none",
            importance=LOW,
            check=COMPRESSION_CHECK,
            doc=COMPRESSION_DOC,
            group=group,
            order=order,
        ),
        Key(
            f"{prefix}.compression.level",
            INT,
            default=-1,
            importance=LOW,
            check=LEVEL_CHECK,
            doc=LEVEL_DOC,
            group=group,
            order=order + 1,
        ),
    )


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy between tasks and a store."""

    url: Key[str]
    user: Key[str | None]
    password: Key[Secret]

    @property
    def keys(self) -> Sequence[Key[str] | Key[str | None] | Key[Secret]]:
        """All keys of the proxy."""
        return self.url, self.user, self.password

    def of(self, config: Config) -> str | None:
        """The proxy's URL, with its user; None if there is none."""
        url = config[self.url]
        return proxy_url(url, config[self.user], config[self.password]) if url else None


def proxy(prefix: str, group: str, order: int, user: str | None = "") -> Proxy:
    """Proxy keys; names begin with `prefix`. `user`: the default."""
    return Proxy(
        Key(
            f"{prefix}.proxy.url",
            STRING,
            default="",
            importance=LOW,
            check=url_check(),
            doc="An HTTP proxy: http://host:port.",
            group=group,
            order=order,
        ),
        Key(
            f"{prefix}.proxy.user",
            STRING,
            default=user,
            importance=LOW,
            doc="The proxy's user.",
            group=group,
            order=order + 1,
        ),
        Key(
            f"{prefix}.proxy.password",
            PASSWORD,
            default=Secret(""),
            importance=LOW,
            doc="The proxy's password.",
            group=group,
            order=order + 2,
        ),
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
    config: Config, compressed: Compression, create_only: Key[bool], ignored: Sequence[str]
) -> SinkPlan:
    """The plan of a valid configuration of a sink. `create_only`: whether a task leaves files of
    other tasks unchanged, if files end by the clock and have no files of keys or headers."""
    plan = plan_of(
        config,
        compression=config[compressed.type],
        level=config[compressed.level],
        named=named_object,
        ignored=ignored,
    )
    alone = plan.keys is None and plan.headers is None
    return replace(
        plan, create_only=config[create_only] and plan.rules.schedule_ms is not None and alone
    )
