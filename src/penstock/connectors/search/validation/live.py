"""Checks of a configuration against the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.api import ConfigInvalid, Finding, PenstockError
from penstock.connectors.search.client.access import Client, ClientOptions, path
from penstock.connectors.search.client.errors import Answered, Unreachable
from penstock.connectors.search.settings import shared
from penstock.connectors.search.write.plan import SinkPlan, shared_resource

_OLDEST = (7, 0)


def findings(
    options: ClientOptions, plan: SinkPlan, props: Mapping[str, str], resource_setting: str
) -> Iterable[Finding]:
    """Findings about the cluster, the user, and resources that must exist."""
    mapped = plan.resources
    topics = [topic.strip() for topic in props.get("topics", "").split(",") if topic.strip()]
    if not props.get("transforms"):  # they may change the topics
        keyed: dict[str, str] = {}
        for topic in topics:
            if problem := shared_resource(plan, topic, keyed):
                yield Finding("topics", problem)
    if mapped is not None:
        for topic in topics:
            if topic not in mapped:
                yield Finding(
                    resource_setting,
                    f"Topic '{topic}' is not mapped to any resource. All configured topics must "
                    "be mapped to a resource.",
                )
        if topics:
            for topic in mapped.keys() - set(topics):
                yield Finding(
                    resource_setting,
                    f"Topic '{topic}' is mapped but not configured. All mapped topics must be "
                    "configured topics.",
                )
    client = Client(options)
    try:
        yield from cluster_findings(client, options, has_streams=plan.streams is not None)
        if mapped is not None:
            yield from _resources(client, mapped, resource_setting)
    finally:
        client.close()


def cluster_findings(
    client: Client, options: ClientOptions, *, has_streams: bool = False
) -> Iterable[Finding]:
    """Findings about the cluster and the user."""
    try:
        info = client.request("GET", "/")
    except Unreachable as error:
        yield Finding(shared.URLS.name, f"Could not connect to the cluster. {error}")
        return
    except Answered as error:
        if error.http_status == 403:
            return  # the user may not see the version
        if error.http_status == 401:
            text = f"Could not authenticate the user. Check the user and the password. {error}"
            yield Finding(shared.USERNAME.name, text)
            if options.password is not None:
                yield Finding(shared.PASSWORD_KEY.name, text)
            return
        yield Finding(shared.URLS.name, f"Could not connect to the cluster. {error}")
        return
    version = info.get("version", {}) if isinstance(info, Mapping) else {}
    number = str(version.get("number", ""))
    parts = tuple(int(part) for part in number.split(".")[:2] if part.isdecimal())
    if len(parts) < 2:
        yield Finding(shared.URLS.name, "The server is neither Elasticsearch nor OpenSearch")
    elif version.get("distribution") != "opensearch" and parts < _OLDEST:
        yield Finding(
            shared.URLS.name, f"Elasticsearch {number} is too old: 7.0 or newer is required"
        )
    elif has_streams and version.get("distribution") != "opensearch" and parts < (7, 9):
        yield Finding(
            shared.URLS.name,
            f"Elasticsearch version {number} is not compatible with data streams. Elasticsearch "
            "version must be at least 7.9.0.",
        )


def _resources(client: Client, mapped: Mapping[str, str], setting: str) -> Iterable[Finding]:
    try:
        missing = [name for name in mapped.values() if not client.exists(path(name))]
        if not missing:
            return
        known = client.request("GET", "/_aliases")
    except (Unreachable, ConfigInvalid):
        return  # reported already
    except PenstockError as error:
        yield Finding(setting, f"Failed to check whether resources exist: {error}")
        return
    names = {name for name in known if not name.startswith(".")}
    names |= {alias for index in known.values() for alias in index.get("aliases", ())}
    for name in missing:
        yield Finding(setting, f"'{name}' does not exist in the cluster", sorted(names))
