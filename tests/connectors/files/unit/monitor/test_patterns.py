"""Paths with wildcards."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.connectors.files.monitor.patterns import PathPatternInvalid, pattern
from penstock.connectors.files.stores.folders import Item, Kind

TREE = {
    "/a": ("dira/", "dirb/", "x.txt"),
    "/a/dira": ("path/", "nopath/"),
    "/a/dirb": ("path/",),
    "/a/dira/path": ("file1.txt", "file2.csv", "deep/"),
    "/a/dirb/path": ("file3.txt", "[x].txt", "-y.txt", "ü {1}.txt"),
}


def look(folder: str) -> Sequence[Item]:
    assert "nopath" not in folder, "what does not match is not listed"
    return [
        Item(name.rstrip("/"), Kind.FOLDER if name.endswith("/") else Kind.FILE)
        for name in TREE[folder]
    ]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("/a/dir?/path/*.txt", "dira/path/file1.txt dirb/path/-y.txt dirb/path/[x].txt "
         "dirb/path/file3.txt dirb/path/ü_{1}.txt"),
        ("/a/dira/path/", "dira/path/file1.txt dira/path/file2.csv"),
        ("a//dira/path/file1.txt", "dira/path/file1.txt"),
        ("/a/{dira,dirb}/path/file[1-2].*", "dira/path/file1.txt dira/path/file2.csv"),
        ("/a/dir[!a]/path/file*", "dirb/path/file3.txt"),
        ("/a/dirb/path/\\[x\\].txt", "dirb/path/[x].txt"),
        ("/a/dirb/path/**.txt", "dirb/path/-y.txt dirb/path/[x].txt dirb/path/file3.txt "
         "dirb/path/ü_{1}.txt"),
        ("/a/*", "x.txt"),
        ("/a/missing.txt", ""),
    ],
)  # fmt: skip
def test_files_of_a_pattern(text: str, paths: str) -> None:
    watched = pattern(text)
    found = [path for path, _ in watched.files(look)]
    assert found == [f"/a/{path.replace('_', ' ')}" for path in paths.split()]
    assert all(watched.fits(path) for path in found)
    assert not watched.fits("/b/x.txt")


@pytest.mark.parametrize("text", ["", "/a/[b", "/a/{b", "/a/{b,{c}}", "/a/b\\", "/a/[z-a]"])
def test_a_path_that_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(PathPatternInvalid):
        pattern(text)
