"""Credentials of Amazon's services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Role:
    """A role that is assumed for its credentials."""

    arn: str
    session: str
    external_id: str | None = None
    duration_s: int | None = None
    url: str | None = None
    """The address of the service that issues the credentials, unless it is Amazon's."""


def assuming(session: Any, role: Role) -> Callable[[], Mapping[str, str]]:
    """A function that assumes a role with the credentials of a boto3 session, and returns those of
    the role, as botocore's refreshable credentials require."""

    def refresh() -> Mapping[str, str]:
        arguments: dict[str, Any] = {"RoleArn": role.arn, "RoleSessionName": role.session}
        if role.duration_s:
            arguments["DurationSeconds"] = role.duration_s
        if role.external_id:
            arguments["ExternalId"] = role.external_id
        try:
            credentials = client.assume_role(**arguments)["Credentials"]
        finally:
            client.close()  # its connections; the next call opens new ones
        return {
            "access_key": credentials["AccessKeyId"],
            "secret_key": credentials["SecretAccessKey"],
            "token": credentials["SessionToken"],
            "expiry_time": credentials["Expiration"].isoformat(),
        }

    client = session.client("sts", endpoint_url=role.url)
    return refresh
