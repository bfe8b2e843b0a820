"""The docs list every setting, metric and error code, and their links have targets."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import Counter, Gauge, Histogram

from clearspan.environment import describe_settings
from common import telemetry
from common.errors import RejectionCode
from common.setting_types import file_variable, secrets_of
from common.settings import IngestSettings, KafkaSettings, QuerySettings, Settings
from query_api.http.app import request_s_max

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def _page(name: str) -> str:
    return (ROOT / name).read_text()


def _codes_in_first_column(page: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)`", _page(page), re.MULTILINE)


def test_every_setting_is_documented():
    rows = re.findall(r"^\| `([^`]+)` \| (.+?) \| (.+?) \| (.+?) \|$", _page("docs/settings.md"), re.MULTILINE)

    assert rows == [
        (
            each.name,
            f"`{each.default}`" if each.default else "empty",
            each.allowed or "–",
            each.meaning.replace("|", "\\|"),
        )
        for each in describe_settings()
    ]


def test_every_rejection_code_is_documented():
    assert set(_codes_in_first_column("docs/dead-letters.md")) >= {code.value for code in RejectionCode}


def test_documented_metrics_are_those_that_exist():
    declared = [each for each in vars(telemetry).values() if isinstance(each, Counter | Gauge | Histogram)]
    names = [each._name + ("_total" if isinstance(each, Counter) else "") for each in declared]

    assert _codes_in_first_column("docs/metrics.md") == names


def test_every_metric_is_observed_somewhere():
    declared = {name for name, each in vars(telemetry).items() if isinstance(each, Counter | Gauge | Histogram)}
    packages = ("common", "ingest", "jobs", "query_api")
    sources = [path.read_text() for package in packages for path in (ROOT / package).rglob("*.py")]

    assert {name for name in declared if not any(f"{name}." in source for source in sources)} == set()


def test_links_of_pages_lead_to_files() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())]

    assert [
        (str(page.relative_to(ROOT)), link)
        for page, link in links
        if "://" not in link and not (page.parent / link).exists()
    ] == []


def test_commands_of_pages_reach_the_stack_of_the_reader() -> None:
    """A default address may belong to the stack of somebody else: commands use `CLEARSPAN_URL`, and say how it is set."""
    for page in PAGES:
        found = re.findall(
            r"^```(bash|sh|console|python|js|ts|json)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE
        )
        code = "\n".join(text for _, text in found)
        commands = "\n".join(text for language, text in found if language != "json")

        assert re.findall(r"(?:127\.0\.0\.1|localhost|\[::1\]):(?:808[012]|9092|431[78])\b", code) == [], page
        assert re.findall(r"\$\{?(?:API|CLEARSPAN)\b", code) == [], page
        if "CLEARSPAN_URL" in commands:
            assert re.search(r'eval "\$\((?:\.venv/bin/)?clearspan env\)"', commands), page


def test_every_file_of_the_glossary_exists() -> None:
    named = re.findall(r"\| `([^`]+)` \|$", _page("docs/glossary.md"), re.MULTILINE)

    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_index_lists_every_page() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}

    assert pages - set(re.findall(r"\(([\w-]+\.md)\)", _page("docs/README.md"))) == set()


def test_containers_get_more_time_to_stop_than_they_need():
    services = re.findall(
        r"^  (\w+):\n(?:    .+\n)*?    stop_grace_period: (\d+)s", _page("docker-compose.yml"), re.MULTILINE
    )
    given_s = {name: int(seconds) for name, seconds in services}
    a_request_s = KafkaSettings().request_timeout_s

    assert given_s["ingest"] > IngestSettings().shutdown_grace_s + 2 * a_request_s
    assert given_s["serve"] > request_s_max(QuerySettings()) + a_request_s


def test_compose_files_set_only_settings():
    known = {each.name for each in describe_settings()} | set(map(file_variable, secrets_of(Settings)))

    for name in ("docker-compose.yml", "deploy/compose-secrets.yml"):
        given = set(re.findall(r"^ +(CLEARSPAN_\w+):", _page(name), re.MULTILINE))
        assert given
        assert given - known == set()
