"""Plugins in folders of `plugin.path`: what is found, what is not, and why."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from penstock.errors import StartupFailed
from penstock.flow.spark import shipping
from penstock.plugins import path as plugin_path
from penstock.plugins.jars import plugins_of_jars
from penstock.plugins.path import LocationForm, Survey, survey
from penstock.plugins.registry import Level, SkippedPlugin
from tests.servers.plugin_folders import code, described, jar, wheel, write


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Undoes the imports of a test."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in [name for name in sys.modules if name.startswith("pp_")]:
        del sys.modules[name]


def look(*paths: Path, discovery: str = "hybrid_warn") -> Survey:
    listed = ",".join(map(str, paths))
    return survey({"plugin.path": listed, "plugin.discovery": discovery})


def found(survey: Survey) -> dict[str, str]:
    """The locations of the plugins that are not installed, by class name."""
    return {
        each.plugin.class_name: each.location
        for each in survey.registry.found
        if each.location != "classpath"
    }


def skipped(survey: Survey, level: Level = Level.BROKEN) -> list[SkippedPlugin]:
    return [s for place in survey.places for s in place.skipped if s.level is level]


def test_a_module_in_a_listed_folder_is_found(tmp_path: Path) -> None:
    write(tmp_path, {"pp_module.py": code("Drain")})
    survey = look(tmp_path)
    assert found(survey) == {"org.example.DrainConnector": str(tmp_path / "pp_module.py")}
    assert survey.registry.connector("Drain").cls.__module__ == "pp_module"
    assert survey.registry.roots == (str(tmp_path),)
    assert sys.path[-1] == str(tmp_path)


def test_a_package_is_found_with_the_modules_in_it(tmp_path: Path) -> None:
    files = {"pp_package/__init__.py": "", "pp_package/deep/__init__.py": ""}
    files["pp_package/deep/sinks.py"] = code("Deep", more="from pp_package.helper import ANSWER")
    files["pp_package/helper.py"] = "ANSWER = 42\n"
    survey = look(write(tmp_path, files))
    assert found(survey) == {"org.example.DeepConnector": str(tmp_path / "pp_package")}
    assert survey.registry.connector("Deep").cls.__module__ == "pp_package.deep.sinks"


def test_a_folder_of_modules_is_a_location_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, {"acme/pp_inner.py": code("Inner", more="import pp_helper")})
    write(tmp_path, {"acme/pp_helper.py": "", "acme/README.md": ""})
    survey = look(tmp_path)
    assert found(survey) == {"org.example.InnerConnector": str(tmp_path / "acme")}
    assert survey.registry.roots == (str(tmp_path / "acme"),)


DISTRIBUTION = described(
    "pp-dist", {"dist": "pp_dist.sinks:Dist"}, {"pp_dist/__init__.py": "", "pp_dist/sinks.py": ""}
)


@pytest.mark.parametrize("place", ["", "acme"], ids=["listed itself", "in a listed folder"])
def test_packages_that_pip_installed_into_a_folder_are_found_by_entry_points(
    tmp_path: Path, place: str
) -> None:
    files = {**DISTRIBUTION, "pp_dist/sinks.py": code("Dist")}
    files["pp_dist/undeclared.py"] = code("Undeclared") + "raise RuntimeError('imported')\n"
    write(tmp_path / place, files)
    survey = look(tmp_path)
    assert found(survey) == {"org.example.DistConnector": str(tmp_path / place)}
    assert survey.undeclared == ()
    assert not skipped(survey)


def test_beside_what_pip_installed_other_plugins_are_found(tmp_path: Path) -> None:
    write(tmp_path, {**DISTRIBUTION, "pp_dist/sinks.py": code("Dist")})
    write(tmp_path, {"pp_beside.py": code("Beside")})
    survey = look(tmp_path)
    assert found(survey) == {
        "org.example.DistConnector": str(tmp_path),
        "org.example.BesideConnector": str(tmp_path / "pp_beside.py"),
    }


@pytest.mark.parametrize("listed", [True, False], ids=["listed itself", "in a listed folder"])
def test_a_wheel_is_imported_as_it_is(tmp_path: Path, listed: bool) -> None:
    files = described("pp-wheel", {"w": "pp_wheel:Wheel"}, {"pp_wheel/__init__.py": code("Wheel")})
    path = wheel(tmp_path / "pp_wheel-1.0-py3-none-any.whl", files)
    survey = look(path if listed else tmp_path)
    assert found(survey) == {"org.example.WheelConnector": str(path)}
    assert survey.registry.roots == (str(path),)
    module = sys.modules["pp_wheel"]
    assert (module.__file__ or "").startswith(f"{path}/")
    assert sorted(tmp_path.iterdir()) == [path]  # nothing is unpacked


def test_a_folder_of_wheels_holds_a_plugin_and_what_it_needs(tmp_path: Path) -> None:
    needing = code("Needing", more="import pp_needed.thing")
    (tmp_path / "acme").mkdir()
    a = wheel(
        tmp_path / "acme" / "a-1.0-py3-none-any.whl",
        described("a", {"n": "pp_needing:Needing"}, {"pp_needing.py": needing}),
    )
    b = wheel(
        tmp_path / "acme" / "b-1.0-py3-none-any.whl",
        described("b", {}, {"pp_needed/__init__.py": "", "pp_needed/thing.py": ""}),
    )
    survey = look(tmp_path)
    assert found(survey) == {"org.example.NeedingConnector": str(tmp_path / "acme")}
    assert survey.registry.roots == (str(a), str(b))


def test_a_tuple_of_classes_may_be_declared(tmp_path: Path) -> None:
    text = code("One") + code("Other") + "\nBOTH = (One, Other)\n"
    write(tmp_path, described("pp-both", {"both": "pp_both:BOTH"}, {"pp_both.py": text}))
    assert set(found(look(tmp_path))) == {"org.example.OneConnector", "org.example.OtherConnector"}


def test_a_project_of_the_template_is_found_where_it_is(tmp_path: Path) -> None:
    from penstock.template import write_project

    write_project(tmp_path, "pp_project")
    for discovery in ("hybrid_fail", "service_load", "hybrid_warn"):
        survey = look(tmp_path / "pp_project", discovery=discovery)
        assert set(found(survey)) == {
            "pp_project.PpProjectSourceConnector",
            "pp_project.PpProjectSinkConnector",
        }
        assert not skipped(survey)
        assert survey.undeclared == ()  # its pyproject.toml declares them


@pytest.mark.parametrize("source", ["pp_sources", "pp_sources/src"])
@pytest.mark.parametrize("listed", [True, False])
def test_plugins_that_the_project_of_sources_declares_are_declared(
    tmp_path: Path, source: str, listed: bool
) -> None:
    place = tmp_path / source
    write(place, {"pp_one.py": code("One"), "pp_two/__init__.py": code("Two") + code("Three")})
    entries = '[project.entry-points."penstock.plugins"]\none = "pp_one:One"\ntwo = "pp_two:Two"\n'
    (tmp_path / "pp_sources" / "pyproject.toml").write_text(entries)
    survey = look(place if listed else place.parent)
    assert len(found(survey)) == 3
    assert {each.cls.__name__ for each in survey.undeclared} == {"Three"}


@pytest.mark.parametrize(
    "text",
    ["", "not TOML", "project = 7", '[project.entry-points."penstock.plugins"]\none = 7\n'],
)
def test_a_project_that_declares_nothing_has_undeclared_plugins(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"pp_one.py": code("One"), "pyproject.toml": text})
    survey = look(tmp_path)
    assert {each.cls.__name__ for each in survey.undeclared} == {"One"}
    assert not skipped(survey)


def test_a_declaration_of_a_missing_class_is_reported(tmp_path: Path) -> None:
    entries = '[project.entry-points."penstock.plugins"]\none = "pp_one:Won"\n'
    write(tmp_path, {"pp_one.py": code("One"), "pyproject.toml": entries})
    survey = look(tmp_path)
    (broken,) = skipped(survey)
    assert "pp_one:Won" in broken.what
    assert {each.cls.__name__ for each in survey.undeclared} == {"One"}


def test_a_folder_of_jars_does_no_harm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    jar(
        tmp_path / "connect-file-4.2.0.jar", "org.apache.kafka.connect.file.FileStreamSinkConnector"
    )
    jar(tmp_path / "acme" / "lib" / "acme.jar", "com.acme.AcmeSink")
    path = list(sys.path)
    registry = plugin_path.registry({"plugin.path": str(tmp_path)})
    assert all(each.location == "classpath" for each in registry.found)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert sys.path == path


def test_the_plugins_of_jars_are_known_by_what_they_declare(tmp_path: Path) -> None:
    jar(tmp_path / "a.jar", "com.acme.AcmeSink", "com.acme.OtherSink")
    jar(tmp_path / "lib" / "b.jar")
    (tmp_path / "c.jar").write_bytes(b"no archive")
    assert plugins_of_jars(tmp_path) == ["com.acme.AcmeSink", "com.acme.OtherSink"]
    assert plugins_of_jars(tmp_path / "c.jar") == []


def test_a_missing_path_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gone = tmp_path / "gone"
    with caplog.at_level(logging.WARNING):
        plugin_path.registry({"plugin.path": f" {gone} , {tmp_path}"})
    assert (
        f"Could not get listing for plugin path: {gone} (No such file or directory). Ignoring"
        in (caplog.text)
    )


def test_code_that_has_nothing_to_do_with_penstock_is_not_imported(tmp_path: Path) -> None:
    files = {"pp_other.py": "raise SystemExit('imported')\n"}
    files["pp_prose.py"] = '"""Not for penstock."""\nraise SystemExit("imported")\n'
    files["pp_more/__init__.py"] = "raise SystemExit('imported')\n"
    survey = look(write(tmp_path, files))
    assert not found(survey)
    assert not skipped(survey)
    assert {s.why for s in skipped(survey, Level.NOTE)} == {"no module in it imports penstock"}
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize(
    "name",
    ["test_pp.py", "pp_test.py", "conftest.py", "setup.py", ".pp_hidden.py", "pp-dash.py"],
)
def test_files_that_are_no_plugins_by_their_names_are_not_imported(
    tmp_path: Path, name: str
) -> None:
    write(tmp_path, {name: code("Hidden")})
    assert not found(look(tmp_path))


def test_nothing_is_imported_twice_or_printed_or_changed(tmp_path: Path) -> None:
    write(tmp_path, {"pp_quiet.py": code("Quiet", more="print('imported')")})
    said = io.StringIO()
    with redirect_stdout(said):
        first = look(tmp_path)
        path = list(sys.path)
        second = look(tmp_path)
    assert said.getvalue() == "imported\n"
    assert found(first) == found(second)
    assert sys.path == path


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (code("X", more="import no_such_module_of_mine"), "No module named 'no_such_module_of_"),
        (code("X", more="raise SystemExit(3)"), "SystemExit: 3"),
        (code("X", more="1 / 0"), "ZeroDivisionError: division by zero"),
        ("import penstock\nclass :", "SyntaxError"),
        (code("X").replace("plugin = ", "plug = "), "it needs a class variable `plugin`"),
        (code("X").replace("(SinkConnector)", ""), "one of the bases SinkConnector, Source"),
        (code("X").replace("def open", "def shut"), "it lacks open"),
    ],
)
def test_a_broken_module_is_reported_and_its_neighbours_are_found(
    tmp_path: Path, text: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, {"pp_broken.py": text, "pp_fine.py": code("Fine")})
    survey = look(tmp_path)
    assert set(found(survey)) == {"org.example.FineConnector"}
    (problem,) = skipped(survey)
    assert "pp_broken" in problem.what
    assert why in problem.why


def test_an_error_says_in_which_line_it_is_and_what_is_missing(tmp_path: Path) -> None:
    write(tmp_path, {"pp_lacks.py": code("Lacks", more="import no_such_module_of_mine")})
    (problem,) = skipped(look(tmp_path))
    assert problem.why.endswith(f"({tmp_path / 'pp_lacks.py'}, line 4)")
    assert problem.advice.startswith("Install 'no_such_module_of_mine' into the worker's")


def test_a_base_of_several_plugins_is_no_mistake(tmp_path: Path) -> None:
    text = code("Base").replace("def open", "def shut").replace("plugin = ", "plugged = ")
    text += "\n\nclass Real(Base):\n"
    text += "    plugin = Plugin('org.example.RealConnector', '1', ConfigDef())\n    open = None\n"
    survey = look(write(tmp_path, {"pp_base.py": text}))
    assert set(found(survey)) == {"org.example.RealConnector"}
    assert not skipped(survey)


def test_a_class_that_has_something_else_called_plugin_is_no_business_of_ours(
    tmp_path: Path,
) -> None:
    text = code("Fine") + "\n\nclass Settings:\n    plugin = 'Fine'\n"
    survey = look(write(tmp_path, {"pp_settings.py": text}))
    assert set(found(survey)) == {"org.example.FineConnector"}
    assert not skipped(survey)


def test_a_variant_without_a_plugin_of_its_own_is_none(tmp_path: Path) -> None:
    text = code("Fine") + "\n\nclass Variant(Fine):\n    pass\n\n\nAlias = Fine\n"
    survey = look(write(tmp_path, {"pp_variant.py": text}))
    (place,) = [place for place in survey.places if place.found and place.kind == "module"]
    assert [each.cls.__name__ for each in place.found] == ["Fine"]
    assert not skipped(survey)
    assert "its `plugin` is inherited from its base" in skipped(survey, Level.NOTE)[0].why


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("json", "'json' is the name of a module of Python; rename it"),
        ("penstock", "'penstock' is the name of a module of penstock; rename it"),
        ("orjson", "'orjson' is also the name of another module, which takes precedence: "),
    ],
)
def test_a_module_whose_name_is_taken_is_reported(tmp_path: Path, name: str, why: str) -> None:
    write(tmp_path, {f"{name}.py": code("Taken")})
    survey = look(tmp_path)
    assert not found(survey)
    (problem,) = skipped(survey)
    assert problem.why.startswith(why)


def test_a_package_whose_name_is_taken_is_reported_once(tmp_path: Path) -> None:
    package = {"penstock/__init__.py": "", "penstock/a.py": code("A"), "penstock/b.py": code("B")}
    (problem,) = skipped(look(write(tmp_path, package)))
    assert problem.what == "penstock"


def test_the_first_of_two_modules_of_one_name_counts_and_the_other_is_reported(
    tmp_path: Path,
) -> None:
    write(tmp_path / "a", {"pp_same.py": code("First")})
    write(tmp_path / "b", {"pp_same.py": code("Second")})
    survey = look(tmp_path / "a", tmp_path / "b")
    assert set(found(survey)) == {"org.example.FirstConnector"}
    (problem,) = skipped(survey)
    assert f"takes precedence: {tmp_path / 'a' / 'pp_same.py'}" in problem.why


def test_a_broken_entry_point_is_reported_and_the_others_are_found(tmp_path: Path) -> None:
    entries = {
        "a": "pp_some:Missing",
        "b": "pp_some:Fine",
        "c": "pp_none:X",
        "d": "json:JSONDecoder",
    }
    write(tmp_path, described("pp-some", entries, {"pp_some.py": code("Fine")}))
    survey = look(tmp_path)
    assert set(found(survey)) == {"org.example.FineConnector"}
    assert {problem.what for problem in skipped(survey)} == {
        "'a' (pp_some:Missing)",
        "'c' (pp_none:X)",
        "'d' (json:JSONDecoder)",
    }


@pytest.mark.parametrize(
    ("files", "purelib", "why"),
    [
        ({"pp_c/__init__.py": "", "pp_c/fast.so": ""}, True, "compiled parts (pp_c/fast.so)"),
        ({"pp_c/__init__.py": ""}, False, "the wheel has compiled parts"),
    ],
)
def test_a_wheel_with_compiled_parts_is_reported(
    tmp_path: Path, files: dict[str, str], purelib: bool, why: str
) -> None:
    whole = described("pp-c", {"c": "pp_c:C"}, files, purelib=purelib)
    wheel(tmp_path / "pp_c-1.0-cp311-linux.whl", whole)
    (problem,) = skipped(look(tmp_path))
    assert why in problem.why
    assert problem.advice.startswith("Run 'pip install --target FOLDER pp_c-1.0-cp311-linux.whl'")


@pytest.mark.parametrize("content", [b"", b"no archive", None], ids=["empty", "other", "zip"])
def test_an_invalid_wheel_is_reported(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x-1.0-py3-none-any.whl"
    if content is None:
        wheel(path, {"x.py": ""})
    else:
        path.write_bytes(content)
    (problem,) = skipped(look(tmp_path))
    assert "it is not a wheel" in problem.why or "it cannot be read" in problem.why


def test_links_are_followed_and_broken_ones_told(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", {"pp_linked/__init__.py": code("Linked")})
    (tmp_path / "listed").mkdir()
    (tmp_path / "listed" / "pp_linked").symlink_to(tmp_path / "elsewhere" / "pp_linked")
    (tmp_path / "listed" / "broken").symlink_to(tmp_path / "nowhere")
    survey = look(tmp_path / "listed")
    assert set(found(survey)) == {"org.example.LinkedConnector"}
    (problem,) = skipped(survey, Level.WARNING)
    broken = tmp_path / "listed" / "broken"
    assert problem.why == f"Resolving symbolic link '{broken}' failed. Ignoring this path"


def test_an_unreadable_entry_is_reported_and_its_neighbours_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"locked/pp_locked.py": code("Locked"), "pp_open.py": code("Open")})
    iterdir = Path.iterdir

    def locked(folder: Path) -> Iterator[Path]:
        if folder.name == "locked":
            raise PermissionError(13, "Permission denied")
        return iterdir(folder)

    monkeypatch.setattr(Path, "iterdir", locked)
    survey = look(tmp_path)
    assert set(found(survey)) == {"org.example.OpenConnector"}
    assert [(problem.what, problem.why) for problem in skipped(survey)] == [
        (str(tmp_path / "locked"), "it cannot be read: Permission denied")
    ]


def test_sources_that_are_not_installed_are_reported(tmp_path: Path) -> None:
    write(tmp_path, {"acme/pyproject.toml": "", "acme/src/acme/__init__.py": ""})
    write(tmp_path, {"a.zip": ""})
    reported = {s.what: s.why for s in skipped(look(tmp_path), Level.WARNING)}
    assert reported == {
        str(tmp_path / "acme"): "it contains the sources of a project",
        str(tmp_path / "a.zip"): "an archive, which is not unpacked",
    }


def test_a_listed_package_is_told_which_folder_to_list(tmp_path: Path) -> None:
    write(tmp_path, {"acme/__init__.py": ""})
    (problem,) = skipped(look(tmp_path / "acme" / "."))
    assert problem.advice == f"List the folder it is in, '{tmp_path}'."


def test_of_two_plugins_with_one_class_name_the_higher_version_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, {"pp_a.py": code("Twice", version="1.9"), "pp_b.py": code("Twice")})
    write(tmp_path, {"pp_c.py": code("Twice", version="1.10")})
    with caplog.at_level(logging.WARNING):
        registry = plugin_path.registry({"plugin.path": str(tmp_path)})
    assert registry.connector("Twice").cls.__module__ == "pp_c"
    assert (
        f"plugin org.example.TwiceConnector 1.9 in {tmp_path / 'pp_a.py'} is not used: version "
        f"1.10 in {tmp_path / 'pp_c.py'} is higher"
    ) in caplog.text


def test_of_equal_versions_what_is_installed_counts(tmp_path: Path) -> None:
    text = code("FileStreamSink", package="org.apache.kafka.connect.file", version="4.2.0")
    write(tmp_path, {"pp_file.py": text})
    survey = look(tmp_path)
    assert survey.registry.connector("FileStreamSink").location == "classpath"
    ((lost, chosen),) = survey.registry.shadowed
    assert (lost.location, chosen.location) == (str(tmp_path / "pp_file.py"), "classpath")


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """A declared plugin and one that is not."""
    files = described("pp-decl", {"d": "pp_declared:D"}, {"pp_declared.py": code("D")})
    wheel(tmp_path / "pp_decl-1.0-py3-none-any.whl", files)
    return write(tmp_path, {"pp_plain.py": code("Plain")})


@pytest.mark.parametrize(
    ("discovery", "names", "undeclared"),
    [
        ("hybrid_warn", {"D", "Plain"}, {"Plain"}),
        ("HYBRID_FAIL", {"D", "Plain"}, {"Plain"}),
        ("only_scan", {"D", "Plain"}, {"D", "Plain"}),
        ("service_load", {"D"}, set()),
    ],
)
def test_the_discovery_says_where_plugins_are_looked_for(
    both: Path, discovery: str, names: set[str], undeclared: set[str]
) -> None:
    survey = look(both, discovery=discovery)
    assert {name.split(".")[-1].removesuffix("Connector") for name in found(survey)} == names
    assert {f.cls.__name__ for f in survey.undeclared} == undeclared


@pytest.mark.parametrize("discovery", ["hybrid_warn", "hybrid_fail", "only_scan", "service_load"])
def test_undeclared_plugins_are_warned_of_or_keep_the_worker_from_starting(
    both: Path, caplog: pytest.LogCaptureFixture, discovery: str
) -> None:
    props = {"plugin.path": str(both), "plugin.discovery": discovery}
    text = (
        "One or more plugins are not declared by entry points and may not be usable with "
        "plugin.discovery=service_load: [org.example.PlainConnector]."
    )
    with caplog.at_level(logging.WARNING):
        if discovery == "hybrid_fail":
            with pytest.raises(StartupFailed, match="To silence this error, set") as refused:
                plugin_path.registry(props)
            assert str(refused.value).startswith(text)
        else:
            plugin_path.registry(props)
    assert (text in caplog.text) == (discovery == "hybrid_warn")
    assert ("pp_plain is not declared" in caplog.text) == (discovery == "service_load")


def test_plugins_in_roots_go_to_executors(tmp_path: Path) -> None:
    listed, target = tmp_path / "listed", tmp_path / "target"
    write(listed, {"pp_ship.py": code("Ship", more="import pp_sibling"), "pp_sibling.py": ""})
    write(listed, {"notes.txt": "", "folder/readme.md": "", "json.py": "", "pp_n/a.py": ""})
    files = described("pp-sent", {"s": "pp_sent:Sent"}, {"pp_sent/__init__.py": code("Sent")})
    wheel(listed / "pp_sent-1.0-py3-none-any.whl", {**files, "pp_sent/data.bin": "data"})
    inner = described("pp-into", {"i": "pp_into:Into"}, {"pp_into.py": code("Into")})
    write(target / "into", {**inner, "pp_c/__init__.py": "", "pp_c/_c.so": "", "orjson/a.py": ""})
    survey = look(listed, target)
    shipment = shipping.pack(tmp_path, roots=survey.registry.roots)
    with zipfile.ZipFile(shipment.archive) as archive:
        names = {name for name in archive.namelist() if not name.startswith("penstock/")}
    assert {name for name in names if not name.endswith("/")} == {
        "pp_ship.py",
        "pp_sibling.py",
        "pp_sent/__init__.py",
        "pp_sent/data.bin",
        "pp-sent-1.0.dist-info/METADATA",
        "pp-sent-1.0.dist-info/entry_points.txt",
        "pp_into.py",
        "pp-into-1.0.dist-info/METADATA",
        "pp-into-1.0.dist-info/entry_points.txt",
    }
    assert shipment.left_out == ("pp_c",)


def test_python_workers_get_the_same_path(tmp_path: Path) -> None:
    write(tmp_path, {"pp_daemon.py": code("Daemon"), "orjson.py": "raise SystemExit('shadowed')"})
    survey = look(tmp_path)
    script = (
        "import os, json\n"
        f"os.environ['PENSTOCK_PLUGIN_ROOTS'] = json.dumps({list(survey.registry.roots)!r})\n"
        "import penstock.flow.spark.daemon, pp_daemon, orjson\n"
        "print(pp_daemon.Daemon.plugin.class_name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == "org.example.DaemonConnector\n", done.stderr


def test_every_form_has_a_name_of_its_own() -> None:
    assert len({form.value for form in LocationForm}) == len(LocationForm)
