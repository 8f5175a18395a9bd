"""The common options of all commands that use a cluster, before the command's name or after it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from penstock.cli import clusters
from penstock.clock import Clock, SystemClock
from penstock.errors import PenstockError

if TYPE_CHECKING:
    import httpx

    from penstock.cli.client import Connect
    from penstock.cli.rest import RestAnswer

F = TypeVar("F", bound=Callable[..., Any])

_COMPLETION_S: Final = 2.0


@dataclass
class CommandSession:
    """One run of the command: the common options, and the outside world."""

    url: str | None = None
    cluster: str | None = None
    json: bool = False
    show_secrets: bool = False
    request_timeout: float = 95.0  # seconds; a worker answers, or gives up, within 90
    patience: float = 15.0  # seconds
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    clock: Clock = field(default_factory=SystemClock)
    pause: Callable[[float], object] = field(default_factory=lambda: threading.Event().wait)
    transport: httpx.BaseTransport | None = None

    def connect(self, timeout_s: float | None = None) -> Connect:
        """The REST client of the selected cluster. Raises Unusable when none can be selected."""
        from penstock.cli.client import Connect  # only commands that send requests import httpx

        return Connect(
            clusters.choose(self.url, self.cluster, self.environ),
            clock=self.clock,
            pause=self.pause,
            timeout_s=timeout_s or self.request_timeout,
            patience_s=self.patience,
            transport=self.transport,
        )

    def prints_json(self, answer: RestAnswer) -> bool:
        """Prints just the worker's response with --json; returns whether it did."""
        if self.json and answer.content:
            click.echo(answer.content.rstrip(b"\n"))
        return self.json


pass_session = click.make_pass_decorator(CommandSession, ensure=True)


def _keep(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Stores the option; the rightmost one wins."""
    if value is not None and value is not False:
        assert param.name is not None
        setattr(ctx.ensure_object(CommandSession), param.name, value)


def _cluster_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    session = ctx.find_object(CommandSession) or CommandSession()
    with contextlib.suppress(PenstockError):
        known = clusters.read_clusters(session.environ).by_name
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]
    return []


def connector_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Completes connector names, if the cluster answers at once."""
    session = ctx.find_object(CommandSession) or CommandSession()
    session.patience = 0
    with contextlib.suppress(PenstockError), session.connect(_COMPLETION_S) as connect:
        names = connect.get("/connectors").read([str])
        return [
            CompletionItem(name)
            for name in names
            if name.startswith(incomplete) and name.isprintable()
        ]
    return []


_option: Final = partial(click.option, callback=_keep, expose_value=False)

_OPTIONS: Final = (
    _option("--url", metavar="URL[,URL]", help="Workers to try in turn; or PENSTOCK_URL."),
    _option(
        "--cluster",
        metavar="NAME",
        shell_complete=_cluster_names,
        help="A cluster of the configuration file; or PENSTOCK_CLUSTER.",
    ),
    _option("--json", is_flag=True, help="Print just the worker's response."),
    _option("--show-secrets", is_flag=True, help="Do not mask passwords and the like."),
    _option(
        "--request-timeout",
        type=click.FloatRange(min=0.1),
        metavar="SECONDS",
        help="How long to wait for a response (95).",
    ),
    _option(
        "--patience",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        help="How long to retry while the cluster rebalances (15).",
    ),
)


def common(command: F) -> F:
    """Adds the common options to a command, or to the group of them all."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
