"""Build peers with Go, each in a scratch module of its own below ``.cache/peers``.

The version of the module fixes those of all its dependencies, whose contents Go checks. A program that is there already
is not built again.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from bench.harness import say
from bench.peers.choice import PEERS, PeerChoice
from bench.peers.peer import GoProgram

PROGRAMS: Final = Path(".cache/peers")
BUILD_S_MAX: Final = 3_600.0


class BuildError(Exception):
    """A peer could not be built; the text says why."""


class Programs(NamedTuple):
    """The programs of the peers that can be measured, and a remark on each peer that was chosen."""

    paths: Mapping[str, Path]
    remarks: Mapping[str, str]
    """The version, or why there is no program."""


def programs_of(choices: Iterable[PeerChoice]) -> Programs:
    """Return the programs of the peers; build those that the choice does not name. A failure leaves out one peer."""
    paths, remarks = {}, {}
    for name, program in choices:
        source = PEERS[name].source
        try:
            paths[name] = (program or built(name, source)).resolve()
            remarks[name] = source.version if program is None else "a program that was built before, of any version"
        except BuildError as exc:
            remarks[name] = f"left out: {exc}"
            say(f"{name}: {remarks[name]}\n  Name a program that you have: {name}=/path/to/program")
    return Programs(paths, remarks)


def built(name: str, source: GoProgram) -> Path:
    """Return the program of a peer below ``PROGRAMS``; build it if it is not there. Raises ``BuildError``."""
    directory = PROGRAMS / f"{name}-{source.version}"
    program = directory / name
    if not program.exists():
        say(f"{name}: building {source.version}, which takes minutes …")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "go.mod").write_text("module scratch\n")
        _go(directory, "get", f"{source.package}@{source.version}")
        _go(directory, "build", "-o", name, source.package)
    return program


def _go(directory: Path, *arguments: str) -> None:
    """Run Go in the scratch module, which belongs to no workspace."""
    command = ["go", *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, "GOWORK": "off"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_S_MAX,
            check=False,
        )
    except FileNotFoundError:
        raise BuildError("Go is not installed, which builds it") from None
    except subprocess.TimeoutExpired:
        raise BuildError(f"`{' '.join(command)}` took more than {BUILD_S_MAX:,.0f} s") from None
    if done.returncode != 0:
        reason = " ".join(line.strip() for line in done.stderr.splitlines() if not line.startswith("go: downloading"))
        raise BuildError(f"`{' '.join(command)}` failed: {reason[-600:]}")
