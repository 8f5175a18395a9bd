"""The page about transforms says what their definitions say."""

from __future__ import annotations

import pytest

from penstock.config.render import markdown
from penstock.transform import BUILT_IN
from tests.places import ROOT

PAGE = (ROOT / "docs" / "transforms.md").read_text()


@pytest.mark.parametrize("cls", BUILT_IN, ids=lambda cls: cls.__name__)
def test_the_page_has_every_class_with_its_settings(cls: type) -> None:
    plugin = cls.plugin  # type: ignore[attr-defined]
    assert f"`{plugin.class_name}`" in PAGE
    _, _, section = PAGE.partition(f"`{plugin.class_name}`")
    section, _, _ = section.partition("\n#")
    assert (markdown(plugin.config) if plugin.config.keys else "No settings.") in section
