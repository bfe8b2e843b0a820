"""The files that build and start containers, without a container engine; `tests/containers` runs them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
COMPOSE_FILES = [COMPOSE, *(path.read_text() for path in sorted((ROOT / "deploy").glob("compose-*.yml")))]


def test_deployment_page_lists_the_variables_of_the_compose_files():
    page = (ROOT / "docs/deployment.md").read_text()
    rows = re.findall(r"^\| `([A-Z_]+)` \| (\S+) \|", page, re.MULTILINE)
    read = {pair for text in COMPOSE_FILES for pair in re.findall(r"\$\{(\w+):-([^}]*)\}", text)}

    assert sorted(rows) == sorted((name, f"`{default}`" if default else "empty") for name, default in read)
    assert not any(re.search(r"\$\{\w+\}", text) for text in COMPOSE_FILES)


def test_compose_builds_one_image_and_fetches_none_of_that_name():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

    assert re.findall(r"^ *image: clearspan:(\S+)\n *pull_policy: (\w+)", COMPOSE, re.MULTILINE) == [(version, "never")]
    assert COMPOSE.count("build:") == 1


def test_every_service_has_a_limit_of_memory_and_ports_of_this_machine_alone():
    text = COMPOSE.split("\nservices:\n")[1].split("\nvolumes:\n")[0]
    services = dict(re.findall(r"^  (\w+):\n((?:(?:    .*|  #.*)?\n)+)", text + "\n", re.MULTILINE))

    assert len(services) == 9
    assert [name for name, lines in services.items() if "    mem_limit: ${" not in lines] == []
    assert set(re.findall(r"([\w.:]*)\$\{\w+_PORT:-\d+\}:\d+", text)) == {"127.0.0.1:"}


def test_checks_of_health_start_no_java_and_no_python():
    checks = re.findall(r"test: \[(.+)\]", COMPOSE)

    assert len(checks) == 7
    assert [check for check in checks if "python" in check or ".sh" in check] == []


def test_user_of_clickhouse_manages_no_access():
    assert not any("ACCESS_MANAGEMENT" in text for text in COMPOSE_FILES)


def test_alerts_and_the_dashboard_use_metrics_that_exist():
    dashboard = json.loads((ROOT / "deploy/grafana/clearspan.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += re.findall(r"^ +expr: (.+)$", (ROOT / "deploy/prometheus/alerts.yml").read_text(), re.MULTILINE)
    documented = set(re.findall(r"^\| `(clearspan_\w+)`", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE))
    used = {
        re.sub("_(?:bucket|count|sum)$", "", name)
        for text in expressions
        for name in re.findall(r"clearspan_\w+", text)
    }

    assert used
    assert used - documented == set()


def test_compose_starts_where_the_engine_cannot_raise_limits():
    assert "ulimits" not in COMPOSE


def test_build_context_and_wheel_have_no_packages_of_npm(tmp_path: Path):
    """`make lint` installs them next to the modules of the explorer."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    page = tmp_path / "query_api/explorer/page"
    (page / "node_modules/typescript").mkdir(parents=True)
    for path in (page / "node_modules/typescript/index.js", page / "index.html", page.parent / "__init__.py"):
        path.write_text("\n")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "made", "."]

    subprocess.run(command, cwd=tmp_path, check=True, timeout=240)

    (wheel,) = (tmp_path / "made").iterdir()
    packed = [name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("query_api/explorer/page")]
    assert packed == ["query_api/explorer/page/index.html"]
    assert "**/node_modules" in (ROOT / ".dockerignore").read_text().splitlines()


def test_build_context_has_what_the_image_copies():
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    copies = [words.split()[:-1] for words in re.findall(r"^COPY (?!--from)(.+)$", dockerfile, re.MULTILINE)]
    copied = {source for sources in copies for source in sources}
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert copied == sent
    assert all((ROOT / source).exists() for source in copied)
