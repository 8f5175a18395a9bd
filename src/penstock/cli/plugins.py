"""Commands about plugins on this machine: doctor, new."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli import show
from penstock.cli.exits import Exit
from penstock.cli.session import Session, pass_session

if TYPE_CHECKING:
    from penstock.plugins.path import Survey
    from penstock.plugins.registry import Found, SearchedLocation, Skipped

_OWN: Final = "penstock "
"""How the place of what is built in is called."""

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
def doctor(session: Session, file: Path | None, every: bool, as_json: bool) -> int:
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

    NAME is also the module's; small letters, digits and underscores. By default the project has a
    source and a sink.
    """
    from penstock.template import write_project

    made = write_project(
        folder, name, source=source or not sink, sink=sink or not source, example=example
    )
    for path in made:
        show.echo(str(path))
    place = shlex.quote(str(folder / name))
    what = "" if example else "The README lists what is to be filled in; its tests skip it. "
    show.note(f'{what}Next: cd {place} && pytest -k "not restart"')
    show.note("A running worker keeps the code it has loaded: restart it after a change.")


def _report(survey: Survey, refusal: str | None) -> dict[str, Any]:
    """Everything that is to be told, as JSON."""
    from penstock.plugins.registry import Level, ambiguous

    shared = ambiguous(survey.registry.found)
    unusable = {name for name, _ in shared}
    skipped = [each for place in survey.places for each in place.skipped]
    return {
        "places": [_place(place, unusable, survey.registry.found) for place in survey.places],
        "ambiguous": [
            {"name": name, "classes": sorted(found.plugin.class_name for found in several)}
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
        "undeclared": [found.plugin.class_name for found in survey.undeclared],
        "refused": refusal,
        "broken": sum(each.level is Level.BROKEN for each in skipped) + (refusal is not None),
    }


def _place(place: SearchedLocation, unusable: set[str], used: Sequence[Found]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "kind": place.kind,
        "where": place.where,
        "plugins": [
            {
                "type": found.kind.value,
                "class": found.plugin.class_name,
                "version": found.plugin.version,
                "python": f"{found.cls.__module__}:{found.cls.__qualname__}",
                "names": sorted(_names(found) - unusable, key=len, reverse=True),
                "used": found in used,
            }
            for found in sorted(place.found, key=lambda found: found.plugin.class_name)
        ],
        "experimental": [
            {"class": found.plugin.class_name, "why": found.plugin.experimental}
            for found in sorted(place.found, key=lambda found: found.plugin.class_name)
            if found.plugin.experimental
        ],
        "skipped": [_skipped(each) for each in place.skipped],
        "missing": [
            {
                "family": extra.family,
                "modules": missing,
                "classes": sorted(
                    found.plugin.class_name for found in place.found if found.plugin.extra == extra
                ),
                "install": extra.command,
            }
            for extra in dict.fromkeys(found.plugin.extra for found in place.found)
            if extra is not None and (missing := extra.missing())
        ],
    }
    if place.kind == "jar":
        from penstock.plugins.jars import plugins_of_jars

        known = {found.plugin.class_name for found in used}
        told["java"] = [
            {"class": name, "penstock": name in known}
            for name in plugins_of_jars(Path(place.where))
        ]
    return told


def _names(found: Found) -> frozenset[str]:
    """What a configuration may call it; the short names of nested classes are everybody's."""
    name = found.plugin.class_name
    return frozenset({name}) if "$" in name else found.names()


def _skipped(skipped: Skipped) -> dict[str, Any]:
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
                        f"  {each['type']}",
                        each["version"],
                        each["python"],
                        ", ".join(each["names"]) if each["used"] else "not used, see below",
                    )
                    for each in place["plugins"]
                ],
            )
        for each in place["missing"]:
            modules = ", ".join(each["modules"])
            show.echo(f"  note: {each['family']} lack {modules}; what needs them is refused")
            show.echo(f"    {each['install']}")
        for each in place["experimental"]:
            show.echo(f"  note: {each['class']} is experimental. {each['why']}")
        for each in place["skipped"]:
            what = f"{each['what']}: " if each["what"] else ""
            show.echo(f"  {each['level']}: {what}{each['why']}")
            if each["advice"]:
                show.echo(f"    {each['advice']}")
        if not place["plugins"] and not place["skipped"]:
            show.echo("  nothing")
    if quiet_jars:
        show.echo(f"places with jars that declare no plugins of Kafka Connect: {quiet_jars}")
    for name in report["undeclared"]:
        show.echo(f"not declared by an entry point, found by looking into modules: {name}")
    for each in report["ambiguous"]:
        show.echo(
            f"ambiguous: {len(each['classes'])} plugins answer to '{each['name']}', so it names "
            f"none: {', '.join(each['classes'])}"
        )
    for each in report["shadowed"]:
        show.echo(
            f"not used: {each['class']} {each['version']} in {each['location']}, because of "
            f"{each['by']['version']} in {each['by']['location']}"
        )
    if report["refused"]:
        show.echo(f"a worker does not start: {report['refused']}")
    if any(place["plugins"] and place["kind"] in _EDITED for place in report["places"]):
        show.echo("a running worker keeps the code it has loaded; restart it after a change")
    broken = report["broken"]
    show.echo("nothing is broken" if not broken else f"broken: {broken}")


def _print_jars(place: dict[str, Any]) -> None:
    show.echo(f"{place['where']} (jar; penstock runs plugins written in Python)")
    for each in place["java"]:
        has = "penstock has it" if each["penstock"] else "penstock has none of that name"
        show.echo(f"  {each['class']}: {has}")
