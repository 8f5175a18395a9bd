"""`penstock explain`: what every setting and metric means.

`penstock explain --pages docs` writes the pages of the documentation with the same texts: what
`make docs` runs, and a test compares.
"""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("what", required=False)
@click.option(
    "--pages",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the pages of the documentation about settings and metrics to this folder.",
)
def explain(what: str | None, folder: Path | None) -> None:
    """List settings and metrics, and explain what they mean.

    WHAT is `worker`, `standalone`, `source` or `sink`, a plugin by any of its names, a setting,
    `metrics` or a metric. Without it, lists everything that can be explained.
    """
    from penstock.cli import explanations  # it imports what workers do
    from penstock.plugins.registry import Registry

    if folder is not None:
        for path, page in explanations.pages(Registry.installed()).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(page)
    elif what is None:
        click.echo("\n".join(explanations.contents(Registry.installed())))
    else:
        click.echo_via_pager(explanations.explanation(what, Registry.installed))
