"""A Dockerfile's image without a container engine: its instructions run in folders, by `chroot`.

`debootstrap` makes the base, from the Debian mirror that this machine uses. The image's processes
see what an engine would show them: its root, read-only, a volume, a `/tmp` and a small `/dev/shm`
of their own, the image's user and variables, and their own process numbers. They use the machine's
network. Needs Linux and root.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Final

from penstock.errors import StartupFailed

_RELEASE: Final = "bookworm"
_PACKAGES: Final = ("ca-certificates", "python3", "python3-venv")  # python:3.11-slim has them
_EXCLUDED: Final = ("usr/share/doc", "usr/share/locale", "usr/share/man")  # as in slim images
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of every base
_STEP_S: Final = 900
_AUTHORITIES: Final = Path("usr/local/share/ca-certificates")
_MOUNTS: Final = """\
set -e
mount --make-rprivate /
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
"""
_BUILD: Final = _MOUNTS + 'exec chroot "$ROOT" /bin/sh -c "$0"\n'
_RUN: Final = f"""\
set -e
mount --make-rprivate /
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
{_MOUNTS}
mount -t tmpfs -o size=64m tmpfs "$ROOT/dev/shm"
mount -t tmpfs -o size=64m tmpfs "$ROOT/tmp"
mount --bind "$DATA" "$ROOT$VOLUME"
exec chroot --userspec "$IDS" "$ROOT" /usr/bin/env --ignore-environment --chdir "$FOLDER" "$@"
"""


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """The keyword and the arguments of each instruction, continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", dockerfile.read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(keyword, rest.strip()) for keyword, _, rest in (line.partition(" ") for line in lines)]


def missing() -> str | None:
    """Why no image can be made here; None if one can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "An image's root can be made by root on Linux only"
    absent = [name for name in ("debootstrap", "unshare", "chroot") if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} is missing: make debian"
    probe = ["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        return "This machine allows no mounts (unshare --mount)"
    return None


@dataclass(frozen=True, slots=True)
class Image:
    """The result of the instructions of a stage."""

    root: Path
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    volume: str = ""
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    health: Sequence[str] = ()

    @property
    def size_bytes(self) -> int:
        """Of all its files."""
        done = subprocess.run(
            ["du", "--bytes", "--summarize", str(self.root)],
            check=True,
            capture_output=True,
            text=True,
        )
        return int(done.stdout.split()[0])

    def start_args(
        self, data: Path, env: Mapping[str, str], *words: str
    ) -> tuple[list[str], dict[str, str]]:
        """The command that runs `words` in a container, and the command's own variables. In the
        container, `data` is the volume and `env` are additional variables. Its process is the only
        child of the command's."""
        variables = [f"{name}={value}" for name, value in {**self.env, **env}.items()]
        outer = {
            "ROOT": str(self.root),
            "DATA": str(data),
            "VOLUME": self.volume,
            "IDS": self.user,
            "FOLDER": self.folder,
            "PATH": os.environ["PATH"],
        }
        isolated = ["unshare", "--mount", "--pid", "--kill-child", "sh", "-c", _RUN, "sh"]
        return [*isolated, *variables, *words], outer


def build(dockerfile: Path, folder: Path) -> Image:
    """The image of the last stage, with its files below `folder`; the build context is the
    Dockerfile's folder. Raises StartupFailed with the output of a step that fails."""
    base = _base(folder / "base")
    stages: dict[str, Image] = {}
    image = Image(base)
    arguments: dict[str, str] = {}
    for keyword, rest in instructions(dockerfile):
        variables = {**arguments, **image.env}
        match keyword:
            case "FROM":
                source, _, name = rest.partition(" AS ")
                earlier = stages.get(source, Image(base, {"PATH": _PATH}))
                image = replace(earlier, root=folder / (name or "image"))
                arguments = {}
                _run(["cp", "--archive", str(earlier.root), str(image.root)])
            case "ARG":
                name, _, value = rest.partition("=")
                arguments[name] = value
            case "ENV":
                pairs = [word.partition("=") for word in shlex.split(rest)]
                env = {name: Template(value).substitute(variables) for name, _, value in pairs}
                image = replace(image, env={**image.env, **env})
            case "WORKDIR":
                (image.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
                image = replace(image, folder=rest)
            case "RUN":
                _build_step(image, rest, variables)
            case "COPY":
                _copy(image, shlex.split(rest), stages, dockerfile.parent)
            case "USER":
                image = replace(image, user=rest)
            case "VOLUME":
                image = replace(image, volume=rest)
            case "ENTRYPOINT":
                image = replace(image, entrypoint=json.loads(rest))
            case "CMD":
                image = replace(image, command=json.loads(rest))
            case "HEALTHCHECK":
                health = json.loads(rest.partition("CMD ")[2])
                image = replace(image, health=health)
            case "LABEL" | "EXPOSE":
                pass
            case _:
                raise StartupFailed(f"{dockerfile}: {keyword} is unknown")
        stages[image.root.name] = image
    return image


def _base(root: Path) -> Path:
    """Debian with Python, and with this machine's network settings and authorities."""
    targets = _run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"])
    sources = [line.split() for line in targets.splitlines()]
    mirrors = [uri for uri, *rest in sources if rest == [_RELEASE, "main"]]
    if not mirrors:
        raise StartupFailed(f"apt knows no mirror of Debian {_RELEASE}")
    include = f"--include={','.join(_PACKAGES)}"
    _run(["debootstrap", "--variant=minbase", include, _RELEASE, str(root), mirrors[0]])
    for folder in _EXCLUDED:
        shutil.rmtree(root / folder)
    excludes = "".join(f"path-exclude /{folder}/*\n" for folder in _EXCLUDED)
    (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(excludes)
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    for name in ("etc/resolv.conf", "etc/hosts", "etc/pip.conf"):
        if (Path("/") / name).is_file():
            shutil.copyfile(Path("/") / name, root / name)
    (root / "etc/apt/apt.conf.d/99machine").write_text(_run(["apt-config", "dump", "Acquire"]))
    if (Path("/") / _AUTHORITIES).is_dir():
        shutil.copytree(Path("/") / _AUTHORITIES, root / _AUTHORITIES, dirs_exist_ok=True)
        _run(["chroot", str(root), "update-ca-certificates"])
    return root


def _build_step(image: Image, script: str, variables: Mapping[str, str]) -> None:
    network = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.lower() in ("http_proxy", "https_proxy", "no_proxy")
    }
    env = {"HOME": "/root", **network, **variables, "ROOT": str(image.root)}
    command = ["unshare", "--mount", "--pid", "--kill-child", "sh", "-c", _BUILD]
    _run([*command, f"cd {image.folder} && {script}"], env)


def _copy(image: Image, words: Sequence[str], stages: Mapping[str, Image], context: Path) -> None:
    source = context
    if words[0].startswith("--from="):
        source, words = stages[words[0].partition("=")[2]].root, words[1:]
    *names, to = words
    target = image.root / os.path.join(image.folder, to).lstrip("/")
    for name in names:
        path = source / name.lstrip("/")
        copy = target / path.name if to.endswith("/") and path.is_file() else target
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "*.pyc") if source == context else None
            shutil.copytree(path, copy, symlinks=True, ignore=ignore, dirs_exist_ok=True)
        else:
            shutil.copy2(path, copy)


def _run(command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    if env is None:  # without TMPDIR, which names a folder that is not in the image's root
        env = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=_STEP_S, check=False
    )
    if done.returncode != 0:
        output = (done.stdout + done.stderr)[-3000:]
        raise StartupFailed(f"{shlex.join(command)[-500:]} ends with {done.returncode}:\n{output}")
    return done.stdout
