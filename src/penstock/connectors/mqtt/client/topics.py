"""Topic names and topic filters (MQTT 5, sections 4.7 and 4.8.2).

>>> filter_problem("a/+/b/#"), filter_problem("$share/group/a/#")
(None, None)
>>> filter_problem("a/#/b")
"'#' must be the last level"
>>> matches("a/+/#", "a/b/c"), matches("#", "$SYS/uptime"), matches("$share/g/a/+", "a/b")
(True, False, True)
"""

from __future__ import annotations

from typing import Final

_MAX_BYTES: Final = 65_535
_SHARE: Final = "$share/"


def topic_problem(topic: str) -> str | None:
    """Why a topic cannot be published to, or None."""
    if "+" in topic or "#" in topic:
        return "a topic to publish to must not contain '+' or '#'"
    return _text_problem(topic)


def filter_problem(topic_filter: str) -> str | None:
    """Why a filter cannot be subscribed to, or None."""
    problem = _text_problem(topic_filter)
    if problem is not None:
        return problem
    rest = topic_filter
    if topic_filter.startswith(_SHARE):
        group, slash, rest = topic_filter[len(_SHARE) :].partition("/")
        if not group or not slash or not rest:
            return "a shared subscription must have the form $share/GROUP/FILTER"
        if "+" in group or "#" in group:
            return "the group of a shared subscription must not contain '+' or '#'"
    levels = rest.split("/")
    for number, level in enumerate(levels):
        if level != "#" and "#" in level:
            return "'#' must be a separate level"
        if level == "#" and number < len(levels) - 1:
            return "'#' must be the last level"
        if level != "+" and "+" in level:
            return "'+' must be a separate level"
    return None


def is_shared(topic_filter: str) -> bool:
    """Whether the broker divides the messages of a filter among a group."""
    return topic_filter.startswith(_SHARE)


def unshared(topic_filter: str) -> str:
    """The filter without the group."""
    if not is_shared(topic_filter):
        return topic_filter
    return topic_filter[len(_SHARE) :].partition("/")[2]


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a filter matches a topic."""
    levels = unshared(topic_filter).split("/")
    names = topic.split("/")
    if topic.startswith("$") and levels[0] in ("+", "#"):
        return False
    for number, level in enumerate(levels):
        if level == "#":
            return True
        if number >= len(names) or level not in ("+", names[number]):
            return False
    return len(levels) == len(names)


def _text_problem(text: str) -> str | None:
    if not text:
        return "it is empty"
    if "\x00" in text:
        return "it contains the character U+0000"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    return "it is longer than 65,535 bytes" if size > _MAX_BYTES else None
