"""Commands about plugins on this machine: doctor, new."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli import show
from penstock.cli.exits import Exit
from penstock.cli.session import CommandSession, pass_session

if TYPE_CHECKING:
    from penstock.plugins.path import Survey
    from penstock.plugins.registry import InstalledPlugin, SearchedLocation, SkippedPlugin

_OWN: Final = "penstock "
"""The name of the built-in plugins' place."""

_EDITED: Final = frozenset({"module", "package", "folder of modules"})
"""Kinds of places whose files people edit; see `plugins.path.Form`."""


@click.group()
def plugins() -> None:
    """Show which plugins a worker finds on this machine, or create one.

    `list plugins` shows the plugins of a running worker.
    """


@plugins.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--all", "every", is_flag=True, help="Also list the built-in plugins.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON document.")
@pass_session
def doctor(session: CommandSession, file: Path | None, every: bool, as_json: bool) -> int:
    """Show the plugins, their locations and names, and which were skipped and why.

    Searches where a worker with the settings in FILE (and in CONNECT_* variables) would, and
    imports what it would import. Exits with 1 when a plugin is broken.
    """
    from penstock.cli import start
    from penstock.plugins import path as plugin_path

    settings = start.worker_settings(file, session.environ)
    survey = plugin_path.survey(settings)
    report = _report(survey, plugin_path.refusal(settings, survey))
    if as_json or session.json:
        show.pretty(report)
    else:
        _print(report, every)
    return Exit.DIFFERENT if report["broken"] else Exit.DONE


@plugins.command()
@click.argument("name")
@click.option("--source", "source", is_flag=True, help="Only a source connector.")
@click.option("--sink", "sink", is_flag=True, help="Only a sink connector.")
@click.option(
    "--example",
    is_flag=True,
    help="An example that works: the files of a folder as records, and records in SQLite.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="The parent of the project's folder; by default the current folder.",
)
def new(name: str, source: bool, sink: bool, example: bool, folder: Path) -> None:
    """Create the project of a new connector: a skeleton to fill in, with its tests.

    NAME is also the name of the module: lowercase letters, digits and underscores. By default the
    project has a source and a sink.
    """
    from penstock.template import write_project

    paths = write_project(
        folder, name, source=source or not sink, sink=sink or not source, example=example
    )
    for path in paths:
        show.echo(str(path))
    place = shlex.quote(str(folder / name))
    hint = "" if example else "The README lists what to fill in; the tests skip it. "
    show.note(f'{hint}Next: cd {place} && pytest -k "not restart"')
    show.note("A running worker keeps the code it has loaded: restart it after a change.")


def _report(survey: Survey, refusal: str | None) -> dict[str, Any]:
    """The whole report, as JSON."""
    from penstock.plugins.registry import Level, ambiguous

    shared = ambiguous(survey.registry.found)
    unusable = {name for name, _ in shared}
    skipped = [entry for place in survey.places for entry in place.skipped]
    return {
        "places": [_place(place, unusable, survey.registry.found) for place in survey.places],
        "ambiguous": [
            {"name": name, "classes": sorted(entry.plugin.class_name for entry in several)}
            for name, several in shared
        ],
        "shadowed": [
            {
                "class": lost.plugin.class_name,
                "version": lost.plugin.version,
                "location": lost.location,
                "by": {"version": chosen.plugin.version, "location": chosen.location},
            }
            for lost, chosen in survey.registry.shadowed
        ],
        "undeclared": [entry.plugin.class_name for entry in survey.undeclared],
        "refused": refusal,
        "broken": sum(entry.level is Level.BROKEN for entry in skipped) + (refusal is not None),
    }


def _place(
    place: SearchedLocation, unusable: set[str], used: Sequence[InstalledPlugin]
) -> dict[str, Any]:
    report: dict[str, Any] = {
        "kind": place.kind,
        "where": place.where,
        "plugins": [
            {
                "type": entry.kind.value,
                "class": entry.plugin.class_name,
                "version": entry.plugin.version,
                "python": f"{entry.cls.__module__}:{entry.cls.__qualname__}",
                "names": sorted(_names(entry) - unusable, key=len, reverse=True),
                "used": entry in used,
            }
            for entry in sorted(place.found, key=lambda entry: entry.plugin.class_name)
        ],
        "experimental": [
            {"class": entry.plugin.class_name, "why": entry.plugin.experimental}
            for entry in sorted(place.found, key=lambda entry: entry.plugin.class_name)
            if entry.plugin.experimental
        ],
        "skipped": [_skipped(entry) for entry in place.skipped],
        "missing": [
            {
                "family": extra.family,
                "modules": missing,
                "classes": sorted(
                    entry.plugin.class_name for entry in place.found if entry.plugin.extra == extra
                ),
                "install": extra.command,
            }
            for extra in dict.fromkeys(entry.plugin.extra for entry in place.found)
            if extra is not None and (missing := extra.missing())
        ],
    }
    if place.kind == "jar":
        from penstock.plugins.jars import plugins_of_jars

        known = {entry.plugin.class_name for entry in used}
        report["java"] = [
            {"class": name, "penstock": name in known}
            for name in plugins_of_jars(Path(place.where))
        ]
    return report


def _names(entry: InstalledPlugin) -> frozenset[str]:
    """The names a configuration may use; short names of nested classes are ambiguous."""
    name = entry.plugin.class_name
    return frozenset({name}) if "$" in name else entry.names()


def _skipped(skipped: SkippedPlugin) -> dict[str, Any]:
    return {
        "what": skipped.what or None,
        "why": skipped.why,
        "level": skipped.level.value,
        "advice": skipped.advice or None,
    }


def _print(report: dict[str, Any], every: bool) -> None:
    quiet_jars = 0
    for place in report["places"]:
        if place["kind"] == "jar":
            if place["java"]:
                _print_jars(place)
            else:
                quiet_jars += 1
            continue
        show.echo(f"{place['where']} ({place['kind']})")
        if place["plugins"] and not every and place["where"].startswith(_OWN):
            show.echo(f"  {len(place['plugins'])} plugins; --all lists them")
        elif place["plugins"]:
            show.table(
                ("  TYPE", "VERSION", "PYTHON", "IN CONFIGURATIONS"),
                [
                    (
                        f"  {plugin['type']}",
                        plugin["version"],
                        plugin["python"],
                        ", ".join(plugin["names"]) if plugin["used"] else "not used, see below",
                    )
                    for plugin in place["plugins"]
                ],
            )
        for item in place["missing"]:
            modules = ", ".join(item["modules"])
            show.echo(f"  note: {item['family']} lack {modules}; those that need them are refused")
            show.echo(f"    {item['install']}")
        for item in place["experimental"]:
            show.echo(f"  note: {item['class']} is experimental. {item['why']}")
        for item in place["skipped"]:
            prefix = f"{item['what']}: " if item["what"] else ""
            show.echo(f"  {item['level']}: {prefix}{item['why']}")
            if item["advice"]:
                show.echo(f"    {item['advice']}")
        if not place["plugins"] and not place["skipped"]:
            show.echo("  nothing")
    if quiet_jars:
        show.echo(f"places with jars that declare no plugins of Kafka Connect: {quiet_jars}")
    for name in report["undeclared"]:
        show.echo(f"not declared by an entry point, found by scanning modules: {name}")
    for item in report["ambiguous"]:
        show.echo(
            f"ambiguous: {len(item['classes'])} plugins are called '{item['name']}', so the name "
            f"cannot be used: {', '.join(item['classes'])}"
        )
    for item in report["shadowed"]:
        show.echo(
            f"not used: {item['class']} {item['version']} in {item['location']}, because of "
            f"{item['by']['version']} in {item['by']['location']}"
        )
    if report["refused"]:
        show.echo(f"a worker would not start: {report['refused']}")
    if any(place["plugins"] and place["kind"] in _EDITED for place in report["places"]):
        show.echo("a running worker keeps the code it has loaded; restart it after a change")
    broken = report["broken"]
    show.echo("nothing is broken" if not broken else f"broken: {broken}")


def _print_jars(place: dict[str, Any]) -> None:
    show.echo(f"{place['where']} (jar; connectors written in Java run in the Java host)")
    for row in place["java"]:
        note = "penstock has it, too" if row["penstock"] else "only in Java"
        show.echo(f"  {row['class']}: {note}")
