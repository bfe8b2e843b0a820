"""Java servers for tests: their jars, which Maven fetches the first time."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.missing import missing

REPOSITORY: Final = Path(__file__).parents[2]
FETCH_S_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class JavaServer:
    """A server that runs in Java. The file ``pom`` lists its jars."""

    name: str
    pom: Path
    heap_mb: int

    def command(self) -> list[str]:
        """Return the command that runs a class of the server.

        Skips the test, in CI fails it, if this machine has no Java or cannot fetch the jars.
        """
        memory = [f"-Xmx{self.heap_mb}m", f"-Xms{self.heap_mb // 2}m"]
        return ["java", *memory, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{self.jars()}/*"]

    def jars(self) -> Path:
        """Return the folder of the jars. Skips or fails like ``command``."""
        absent = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
        if absent:
            missing(f"{self.name} needs {' and '.join(absent)}")
        jars = REPOSITORY / ".cache" / self.pom.parent.name / "libs"
        jars.mkdir(parents=True, exist_ok=True)
        with (jars / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # with several test processes, one downloads and the others find the jars
            fetched_pom = jars / "fetched.pom"
            if not fetched_pom.exists() or fetched_pom.read_bytes() != self.pom.read_bytes():
                _fetch(self.name, self.pom, jars)
                shutil.copyfile(self.pom, fetched_pom)
        return jars


def _fetch(name: str, pom: Path, jars: Path) -> None:
    fetched = subprocess.run(
        ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"],
        capture_output=True,
        text=True,
        timeout=FETCH_S_MAX,
        check=False,
    )
    if fetched.returncode != 0:
        missing(f"Maven could not fetch the jars of {name}: {fetched.stdout[-300:]}")
