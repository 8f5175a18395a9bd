"""`penstock explain`: what every setting and metric means.

`docs/settings.md` is `penstock explain --page`, `docs/metrics.md` is `penstock explain metrics
--page`; a test compares them.
"""

from __future__ import annotations

import click


@click.command()
@click.argument("what", required=False)
@click.option("--page", "whole", is_flag=True, help="The page of the documentation, as Markdown.")
def explain(what: str | None, whole: bool) -> None:
    """List settings and metrics, and explain what they mean.

    WHAT is `worker`, `standalone`, `source` or `sink`, a plugin by any of its names, a setting,
    `metrics` or a metric. Without it, lists everything that can be explained.
    """
    from penstock.cli import explanations  # it imports what workers do
    from penstock.plugins.registry import Registry

    if whole and what == explanations.METRICS:
        click.echo(explanations.metrics_page(), nl=False)
    elif whole:
        click.echo(explanations.page(Registry.installed()), nl=False)
    elif what is None:
        click.echo("\n".join(explanations.contents(Registry.installed())))
    else:
        click.echo_via_pager(explanations.explanation(what, Registry.installed))
