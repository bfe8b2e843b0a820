"""What ``docs/clients.md`` shows runs as it is printed, and the client that it generates is good to use."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from common.settings import ClickHouseSettings
from tests.support.http_pages import DOCS, api_with_storing
from tests.support.shell_pages import check_commands, commands, stack_of_a_page

PAGE = "clients.md"
TRACE_ID = "5b8efff798038103d269b633813fc60c"


@pytest.fixture
async def address(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[str]:
    async with api_with_storing(chdb_settings(), chdb_dir, partitions=1) as client:
        yield str(client._base_url).rstrip("/")


def _program(language: str) -> str:
    [program] = re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / PAGE).read_text(), re.DOTALL | re.MULTILINE)
    return str(program)


@contextmanager
def _environment(address: str, folder: Path) -> Iterator[dict[str, str]]:
    with stack_of_a_page(address, folder / "data") as environment:
        yield {**environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.mark.long
async def test_python_client_is_generated_and_used_as_the_page_shows(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "answers.py").write_text(_program("python"))

    shown = commands(PAGE)[:3]
    with _environment(address, tmp_path) as environment:
        await check_commands(shown, environment=environment, prelude=f"cd '{tmp_path}'\n")

    monkeypatch.syspath_prepend(tmp_path)
    await asyncio.to_thread(_use_client, address)


@pytest.mark.long
async def test_typescript_client_is_checked_and_runs_as_the_page_shows(address: str, tmp_path: Path) -> None:
    (tmp_path / "answers.mts").write_text(_program("ts"))
    (tmp_path / "package.json").write_text("{}")
    begin, [(command, shown)] = commands(PAGE)[:1], commands(PAGE)[3:]
    install, rest = command.split("\n", 1)
    await _install_offline(install, tmp_path)

    with _environment(address, tmp_path) as environment:
        _, printed = await check_commands([*begin, (rest, None)], environment=environment, prelude=f"cd '{tmp_path}'\n")

    assert printed.strip().endswith(shown)


async def _install_offline(command: str, folder: Path) -> None:
    """Install what the page names from npm's cache; skip the test if that is not possible."""
    if shutil.which("npm") is None:
        pytest.skip("npm is missing")
    script = command.replace("npm install", "npm install --offline --no-audit --no-fund")
    ended = await asyncio.create_subprocess_exec("bash", "-c", script, cwd=folder, stderr=asyncio.subprocess.DEVNULL)
    if await ended.wait() != 0:
        pytest.skip(f"npm has not cached the packages; to run this test, once run: {command}")


def _use_client(address: str) -> None:
    """Call what the page does not."""
    package = importlib.import_module("clearspan_client")
    models = importlib.import_module("clearspan_client.models")

    with package.AuthenticatedClient(base_url=address, token="any", prefix="ApiKey") as client:
        _check_calls(client, models)


def _check_calls(client: Any, models: Any) -> None:
    facets = _call("analytics.query_span_facets", client, models.FacetsQuery(keys=["span_name"], limit=2))
    assert [(each.field, each.others) for each in facets.facets] == [("span_name", 3)]
    paths = _call("analytics.query_span_facets", client, models.FacetsQuery())
    assert isinstance(paths.facets[0], models.PathFacet)

    span = _call("spans.get_span", client, trace_id=TRACE_ID, span_id="eee19b7ec3c1b170").span
    assert span.start_time.tzinfo is not None
    assert span.attributes.to_dict()["ag"]["type"] == {"trace": "invocation"}
    assert isinstance(span.session_id, importlib.import_module("clearspan_client.types").Unset)
    trace = _call("traces.get_trace", client, trace_id=TRACE_ID).trace
    assert set(trace.spans.additional_properties) == {f"answer {n}" for n in range(5)}

    sessions = _call("analytics.query_span_sessions", client, models.ActivityQuery())
    assert (sessions.count, sessions.session_ids) == (0, [])

    error = _call("spans.query_spans", client, models.SpansQuery(windowing=models.Windowing(limit=0)))
    assert isinstance(error, models.InvalidRequestError)
    assert [problem.loc for problem in error.detail] == [["body", "windowing", "limit"]]


def _call(operation: str, client: Any, body: Any = None, **parameters: str) -> Any:
    """Call an operation of the generated client."""
    if body is not None:
        parameters["body"] = body
    return importlib.import_module(f"clearspan_client.api.{operation}").sync(client=client, **parameters)
