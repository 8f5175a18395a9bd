"""Pages of the site that are made when it is built (a hook of MkDocs): the front page, the
changelog, and the commands from their declarations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from penstock.cli.app import SECTIONS, cli

ROOT: Final = Path(__file__).parents[2]
_LINK: Final = re.compile(r"\]\(([^)]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the pages of docs/ that the navigation does not name to the connectors: a family's page
    is there as soon as it is written."""
    named = re.findall(r"[\w/-]+\.md", str(config.nav))
    [connectors] = [each["Connectors"] for each in config.nav or () if "Connectors" in each]
    for page in sorted(Path(config.docs_dir).glob("*.md")):
        if page.name not in named:
            title = page.read_text().splitlines()[0].removeprefix("# ")
            connectors.append({title: page.name})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages to those of docs/."""
    made = {
        "index.md": moved(ROOT / "README.md"),
        "changelog.md": moved(ROOT / "CHANGELOG.md"),
        "commands.md": commands(),
    }
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def moved(file: Path) -> str:
    """A page of the root, as it would be in docs/."""
    pages = {"docs/decisions/": "decisions/README.md", "docs/reference/": "reference/connectors.md"}

    def target(link: re.Match[str]) -> str:
        path = link[1]
        return f"]({pages.get(path, path.removeprefix('docs/'))})"

    return _LINK.sub(target, file.read_text())


def commands() -> str:
    """Every command with its help."""
    lines = [
        "# Commands",
        "",
        "What `penstock COMMAND --help` prints. What the commands have in common, which workers "
        "they ask and how they exit: [the command line](cli.md).",
    ]
    for title, members in SECTIONS:
        lines += ["", f"## {title}"]
        for command in members:
            lines += _described(command, click.Context(cli, info_name="penstock"))
    return "\n".join(lines) + "\n"


def _described(command: click.Command, parent: click.Context) -> list[str]:
    with click.Context(command, parent, info_name=command.name, max_content_width=100) as context:
        lines = ["", f"### {context.command_path}", "", "```text", context.get_help(), "```"]
        for each in command.commands.values() if isinstance(command, click.Group) else ():
            lines += _described(each, context)
        return lines
