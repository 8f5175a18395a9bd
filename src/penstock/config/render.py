"""Settings and validation results as REST JSON, Markdown and `--help`.

The JSON is that of Kafka Connect 4.3.1, member for member and in its order; the dicts are ready
for any JSON encoder (kafka-connect.md §1.8).

    >>> from penstock.config.define import INT, ConfigDef, Key
    >>> tasks = ConfigDef(Key("tasks.max", INT, default=1, doc="How many."))
    >>> infos = config_infos("Sink", [tasks], tasks.validate({"tasks.max": "many"}))
    >>> infos["error_count"], infos["configs"][0]["value"]["errors"]
    (1, ['Invalid value many for configuration tasks.max: Not a number of type INT'])
    >>> print(help_text(tasks))
    tasks.max  (int, default 1)
        How many.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final

from penstock.config.define import REQUIRED, ConfigDef, ConfigValue, Key, written

Json = dict[str, Any]


def config_infos(
    name: str,
    definitions: Sequence[ConfigDef],
    values: Iterable[ConfigValue],
) -> Json:
    """`ConfigInfos`: the answer to a validation.

    `definitions` are the framework's and then the plugin's, `values` the findings about both. Of
    two for the same setting, the later counts, at the place of the first. Findings about undeclared
    settings come first.
    """
    keys: dict[str, Key[object]] = {}
    groups: dict[str, None] = {}
    for definition in definitions:
        keys.update(definition.by_name())
        groups.update(dict.fromkeys(definition.groups()))
    by_name: dict[str, ConfigValue] = {}
    infos: list[Json] = []
    for value in values:
        if value.name not in keys:
            infos.append({"definition": None, "value": config_value_info(value)})
        by_name[value.name] = value
    for key in keys.values():
        judged = by_name.get(key.name)
        infos.append(
            {
                "definition": config_key_info(key),
                "value": None if judged is None else config_value_info(judged),
            }
        )
    return _infos(name, _messages(infos), list(groups), infos)


def prefixed_infos(
    definition: ConfigDef | None, values: Iterable[ConfigValue], prefix: str
) -> Json:
    """`ConfigInfos` of a part of a connector: a converter, or the settings of a Kafka client.

    Every name gets the prefix; counts settings with errors, not errors (kafka-connect.md §1.8).
    """
    keys = definition.by_name() if definition is not None else {}
    groups: dict[str, None] = {}
    infos: list[Json] = []
    errors = 0
    for value in values:
        key = keys.get(value.name)
        if key is not None and key.group is not None:
            groups[key.group] = None
        errors += bool(value.errors)
        infos.append(
            {
                "definition": None if key is None else config_key_info(key, prefix),
                "value": config_value_info(value, prefix),
            }
        )
    return _infos("", errors, list(groups), infos)


def merged_infos(name: str, *parts: Json) -> Json:
    """Merges the responses about a connector and its parts."""
    return _infos(
        name,
        sum(part["error_count"] for part in parts),
        list(dict.fromkeys(group for part in parts for group in part["groups"])),
        [info for part in parts for info in part["configs"]],
    )


def _infos(name: str, errors: int, groups: list[str], infos: list[Json]) -> Json:
    return {"name": name, "error_count": errors, "groups": groups, "configs": infos}


def _messages(infos: Iterable[Json]) -> int:
    return sum(len(info["value"]["errors"]) for info in infos if info["value"] is not None)


def config_key_info(key: Key[Any], prefix: str = "") -> Json:
    """`ConfigKeyInfo`: the declaration of a setting, also in `GET …/config` of a plugin."""
    return {
        "name": prefix + key.name,
        "type": key.kind.name,
        "required": key.required,
        "default_value": None if key.default is REQUIRED else written(key.default),
        "importance": key.importance.value,
        "documentation": key.doc,
        "group": key.group,
        # As in 4.3.1 workers (captured); older ones called it "order".
        "order_in_group": key.order,
        "width": key.width.value,
        "display_name": key.name if key.display_name is None else key.display_name,
        "dependents": list(key.dependents),
    }


def config_value_info(value: ConfigValue, prefix: str = "") -> Json:
    """`ConfigValueInfo`: the result for a setting. Secrets stay hidden."""
    return {
        "name": prefix + value.name,
        "value": written(value.value),
        "recommended_values": [written(recommended) for recommended in value.recommended],
        "errors": list(value.errors),
        "visible": value.visible,
    }


def invalid_text(infos: Json) -> str | None:
    """The response (400) to a create or update that fails validation; None if it is valid."""
    count = infos["error_count"]
    if not count:
        return None
    errors = [
        error
        for info in infos["configs"]
        if info["value"] is not None
        for error in info["value"]["errors"]
    ]
    return "\n".join(
        [
            f"Connector configuration is invalid and contains the following {count} error(s):",
            *errors,
            "You can also find the above list of errors at the endpoint"
            " `/connector-plugins/{connectorType}/config/validate`",
        ]
    )


_COLUMNS: Final = ("Setting", "Type", "Default", "Valid values", "Importance", "Meaning")


def markdown(definition: ConfigDef) -> str:
    """The settings as a Markdown table, in order of definition; a title row for each group."""
    rows: list[Sequence[str]] = []
    group: str | None = None
    for key in definition.keys:
        if key.group is not None and key.group != group:
            rows.append((f"**{_cell(key.group)}**", "", "", "", "", ""))
        group = key.group
        rows.append(
            (
                f"`{key.name}`",
                key.kind.name.lower(),
                _default(key),
                _cell(_valid(key)),
                key.importance.value.lower(),
                _cell(key.doc),
            )
        )
    lines = [_COLUMNS, ["---"] * len(_COLUMNS), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _default(key: Key[Any]) -> str:
    if key.default is REQUIRED:
        return "*required*"
    text = written(key.default)
    if text is None:
        return "null"
    return f"`{_cell(text)}`" if text else '`""`'


def _valid(key: Key[Any]) -> str:
    return "" if key.check is None else str(key.check)


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def help_text(definition: ConfigDef, width: int = 100) -> str:
    """The settings as text for a terminal, in order of definition."""
    return "\n".join(line for key in definition.keys for line in _help_lines(key, width))


def _help_lines(key: Key[Any], width: int) -> Iterable[str]:
    facts = [key.kind.name.lower()]
    if key.default is REQUIRED:
        facts.append("required")
    elif key.default is not None:
        facts.append(f"default {written(key.default) or chr(34) * 2}")
    if valid := _valid(key):
        facts.append(valid)
    yield f"{key.name}  ({', '.join(facts)})"
    indent = " " * 4
    yield from textwrap.wrap(key.doc, width, initial_indent=indent, subsequent_indent=indent)
