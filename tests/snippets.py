"""``make snippets``: run every snippet of ``docs/instrumentations.md`` as printed with the latest releases.

Each runs in a new environment, in which the command before it installs its packages. So this needs the registries and
is not part of the test suite. The model is a fake on loopback (``OPENAI_BASE_URL``, ``ANTHROPIC_BASE_URL``); Clearspan
is a new stack, whose address replaces the printed one. The spans must have model, tokens, messages, session and user.
Prints the versions used.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.instrumentation_page import MODEL_CALLS, PAGE
from tests.support.model_api import COMPLETION_TOKENS, PROMPT_TOKENS, serving_model_api
from tests.support.model_api import MODEL as MODEL_RESPONDED
from tests.support.stack import RunningStack, running_stack

TIMEOUT_S: Final = 900
FILES: Final = {"python": ("greet.py", "python greet.py"), "js": ("greet.mjs", "node greet.mjs")}
MODELS: Final = frozenset({"gpt-4o-mini", "openai/gpt-4o-mini", "claude-sonnet-4-5", MODEL_RESPONDED})
"""The names that the snippets request; Langfuse and Haystack have one for the request and the response."""

LACKING: Final[Mapping[str, frozenset[str]]] = {
    "OpenTelemetry alone": frozenset({"completion", "messages"}),  # its span is created by hand
    "DSPy": frozenset({"tokens"}),
    "Claude Code": frozenset({"messages"}),
}
"""What the spans of some snippets do not have."""

WITHOUT_MODEL_CALLS: Final = "MCP and FastMCP"
"""Its spans are a call of a tool, of the client and of the server."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """Code of the page, and the command that installs its packages."""

    name: str
    install: str
    language: str
    code: str

    @property
    def ids(self) -> set[str]:
        """Return the session and the user that the code names."""
        return set(re.findall(r"""["'](trip-\d+|thread-\d+|chat-\d+|rider-\d+|baker-\d+)["']""", self.code))


def snippets(page: str) -> Iterator[Snippet]:
    """Return the snippets of a page in order."""
    for name, section in re.findall(r"^### ([^\n]+)\n(.*?)(?=^### |\Z)", page, re.DOTALL | re.MULTILINE):
        found = re.findall(r"^```(bash|python|js)\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
        for (_, install), (language, code) in zip(found[::2], found[1::2], strict=True):
            yield Snippet(name, install, language, code)


def run(snippet: Snippet, stack: RunningStack, model_api: str, folder: Path) -> list[str]:
    """Install, run, check the spans; return the versions of the packages that the command names."""
    file, command = FILES[snippet.language]
    (folder / file).write_text(snippet.code)
    environment = {
        **os.environ,
        "CLEARSPAN_URL": stack.api,
        **dict.fromkeys(("OPENAI_BASE_URL", "OPENAI_API_BASE"), model_api),
        "ANTHROPIC_BASE_URL": model_api.removesuffix("/v1"),
        **dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "any"),
    }
    if snippet.language == "python":
        subprocess.run(
            [sys.executable, "-m", "venv", "--upgrade-deps", folder / "venv"], check=True, stdout=subprocess.DEVNULL
        )
        environment["PATH"] = f"{folder}/venv/bin:{environment['PATH']}"
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    script = f"set -e\n{snippet.install}\n{command}"
    ended = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4_000:]
    body = {"windowing": {"oldest": started}}
    spans = stack.ask_until("/spans/query", body, lambda answer: _is_whole(snippet, answer["spans"]))["spans"]
    assert spans
    return _versions(snippet, folder, environment)


def _is_whole(snippet: Snippet, spans: list[dict[str, Any]]) -> bool:
    """Return whether the spans have everything that they must."""
    if snippet.name == WITHOUT_MODEL_CALLS:
        return [each["span_type"] for each in spans].count("tool") == 2
    calls = [each["attributes"]["ag"] for each in spans if each["span_type"] in MODEL_CALLS]
    roots = [each for each in spans if "parent_id" not in each]
    if len(calls) != 1 or len(roots) != 1:
        return False
    [call], [root] = calls, roots
    lacking = LACKING.get(snippet.name, frozenset())
    if "messages" not in lacking and not all(call["data"][side]["messages"] for side in ("inputs", "outputs")):
        return False
    used = root["attributes"]["ag"]["metrics"]["tokens"].get("cumulative")
    return (
        call["meta"]["request"]["model"] in MODELS
        and used == _tokens_of(lacking)
        and snippet.ids <= {root.get("session_id"), root.get("user_id")}
    )


def _tokens_of(lacking: frozenset[str]) -> dict[str, int] | None:
    """Return the tokens at the root of a snippet."""
    if "tokens" in lacking:
        return None
    if "completion" in lacking:
        return {"prompt": 12, "total": 12}
    total = PROMPT_TOKENS + COMPLETION_TOKENS
    return {"prompt": PROMPT_TOKENS, "completion": COMPLETION_TOKENS, "total": total}


def _versions(snippet: Snippet, folder: Path, environment: dict[str, str]) -> list[str]:
    named = set(re.findall(r"[a-z][\w-]*", snippet.install.splitlines()[0])) - {"pip"}
    if snippet.language == "python":
        listed = subprocess.run(
            [folder / "venv/bin/python", "-m", "pip", "list", "--format", "json"],
            env=environment,
            capture_output=True,
            check=True,
        )
        return [f"{each['name']} {each['version']}" for each in json.loads(listed.stdout) if each["name"] in named]
    listed = subprocess.run(["npm", "ls", "--json"], cwd=folder, env=environment, capture_output=True, check=True)
    return [f"{name} {each['version']}" for name, each in json.loads(listed.stdout)["dependencies"].items()]


def main() -> None:
    """Run the snippets whose names contain an argument, or all; exit with 1 if one fails."""
    chosen = [each for each in snippets(PAGE.read_text()) if any(word in each.name for word in sys.argv[1:] or [""])]
    failures_count = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        serving_model_api() as model_api,
        running_stack(Path(folder) / "data") as stack,
    ):
        for number, snippet in enumerate(chosen):
            place = Path(folder) / str(number)
            place.mkdir()
            try:
                _say(f"{snippet.name}: {', '.join(run(snippet, stack, model_api, place))}")
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failures_count += 1
                _say(f"{snippet.name}: FAILED\n{error}")
            time.sleep(1.1)  # windows of whole seconds do not overlap
    sys.exit(min(failures_count, 1))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
