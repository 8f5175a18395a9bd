"""The settings of one topic of a sink: `topic.override.⟨topic⟩.⟨setting⟩` in place of the
connector's."""

from __future__ import annotations

from penstock.api import ConfigInvalid
from penstock.api.settings import Config, ConfigValue
from penstock.connectors.mongodb.settings.sink import OVERRIDE_PREFIX, TOPIC


def topic_config(config: Config, topic: str) -> Config:
    """The settings of one topic: those of the connector, replaced by its own. Raises ConfigInvalid
    with the names that the user has set."""
    own = config.under(f"{OVERRIDE_PREFIX}{topic}.")
    try:
        return TOPIC.parse({**config.props, **own})
    except ConfigInvalid as error:
        problems = [text for _, text in override_problems(config, topic)]
        raise ConfigInvalid(problems or error.problems) from error


def override_problems(config: Config, topic: str) -> list[tuple[str, str]]:
    """The problems of one topic's settings: the name that the user has set, and the message."""
    prefix = f"{OVERRIDE_PREFIX}{topic}."
    own = config.under(prefix)
    values: list[ConfigValue] = TOPIC.validate({**config.props, **own})
    problems = [
        (f"{prefix}{value.name}", text.replace(value.name, f"{prefix}{value.name}", 1))
        for value in values
        for text in value.errors
        if value.name in own
    ]
    if not problems and any(value.errors for value in values):
        # A rule reports a setting of the connector, which conflicts with the topic's own.
        first = f"{prefix}{next(iter(own), '')}"
        problems = [(first, f"{first}: {text}") for value in values for text in value.errors]
    return problems
