"""The connection of client commands to an API: requests with JSON or streamed bodies, and failures in words.

``api_command`` gives a command its connection: the address is ``--url``, else ``CLEARSPAN_URL``, else that of the
running embedded stack, else ``DEFAULT_URL``; the key is ``--key``, else ``CLEARSPAN_KEY``.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Concatenate, Final, ParamSpec, cast
from urllib.parse import urlsplit

import aiohttp

from clearspan.command import Command, command
from clearspan.console import fail, no_stack
from clearspan.embedded.layout import Layout, Running
from clearspan.environment import read_client_environment
from clearspan.options import Server, ServerOptions
from clearspan.program import called
from common.printable import printable
from common.settings import Settings

Options = ParamSpec("Options")

DEFAULT_URL: Final = "http://127.0.0.1:8080"
CONNECT_S: Final = 10.0
SILENCE_S: Final = 90.0
"""How long an API may send nothing: longer than a query waits and runs."""

PROBLEMS_MAX: Final = 5
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class RequestFailed(Exception):
    """A request failed; the message is a sentence for people.

    ``status`` is the HTTP status, ``None`` without a response. ``retry_after_s`` is set if the API says when to retry.
    """

    def __init__(self, message: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        self.status = status
        self.retry_after_s = retry_after_s
        super().__init__(message)

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status is None or self.status == 429 or self.status >= 500


class WrongUsage(Exception):
    """The options of a command are wrong in a way that its parser cannot see. The exit code is 2."""


class ApiClient:
    """An API at one address. Paths begin with a slash. All methods raise ``RequestFailed``."""

    def __init__(self, session: aiohttp.ClientSession, url: str, *, hint: str = "") -> None:
        self.url: Final = url
        self._session = session
        self._hint = hint
        """Added to the failure if nothing listens at the address."""

    async def get(self, path: str, **query: str) -> dict[str, Any]:
        """Return the JSON response of a GET."""
        return await self.request("GET", path, query=query)

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON response of a POST."""
        return await self.request("POST", path, body=body)

    async def request(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None, query: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a request, with a JSON body if there is one; return the JSON response."""
        async with self.stream(method, path, body=body, query=query) as response:
            try:
                answer = json.loads(await response.read())
            except (ValueError, RecursionError):
                answer = None
            if not isinstance(answer, dict):
                raise RequestFailed(
                    f"{method} {self.url}{path} did not return a JSON object, but {response.content_type};"
                    " is this the address of a Clearspan API?",
                    status=response.status,
                )
            return answer

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield a successful response, whose content the caller reads. Raises ``RequestFailed`` if it breaks."""
        where = f"{method} {self.url}{path}"
        try:
            async with self._session.request(
                method, self.url + path, json=body, params=query, allow_redirects=False
            ) as response:
                if not 200 <= response.status < 300:
                    raise _failure(where, response, await response.text(errors="replace"))
                yield response
        except aiohttp.ClientConnectorError as exc:
            raise RequestFailed(f"{self.url} does not answer: {_reason(exc)}.{self._hint}") from exc
        except TimeoutError as exc:
            raise RequestFailed(f"{where}: no response within {SILENCE_S:.0f} s.") from exc
        except aiohttp.ClientError as exc:
            raise RequestFailed(f"{where}: the connection broke: {str(exc) or type(exc).__name__}.") from exc

    async def require_project(self, project: str) -> None:
        """Check that the key belongs to a project, by its name or id. Raises ``WrongUsage``."""
        current = await self.get("/projects/current")
        if project not in (current.get("project_name"), current.get("project_id")):
            raise WrongUsage(
                f"the key belongs to the project {printable(str(current.get('project_name')))!r}, not to {project!r};"
                " give the key of that project with --key or CLEARSPAN_KEY."
            )


def run_connected(
    settings: Settings,
    server: ServerOptions,
    act: Callable[[ApiClient], Awaitable[int]],
    *,
    is_admin: bool = False,
) -> int:
    """Return the exit code of what is done over a connection; print why it failed.

    The administrator has another key: that of ``server``, else that of the settings.
    """
    if is_admin and server.key is None:
        server = server._replace(key=settings.admin_key.get_secret_value())

    async def run() -> int:
        async with open_connection(settings, server, scheme="Access" if is_admin else "ApiKey") as api:
            return await act(api)

    try:
        return asyncio.run(run())
    except WrongUsage as exc:
        return fail(str(exc), code=2)
    except RequestFailed as exc:
        if is_admin and exc.status == 401:
            return fail("The API does not accept the admin key: give it with --admin-key or CLEARSPAN_ADMIN_KEY.")
        return fail(str(exc))


def on_api(
    function: Callable[Concatenate[ApiClient, Options], Awaitable[int]],
) -> Callable[Concatenate[Settings, Options], int]:
    """Give a function its connection, as its option ``server`` says; return its exit code."""

    def run(settings: Settings, /, *args: Options.args, **options: Options.kwargs) -> int:
        server = cast("ServerOptions", options.pop("server"))
        return run_connected(settings, server, lambda api: function(api, *args, **options))

    functools.update_wrapper(run, function)
    return run


def api_command(
    summary: str = "",
    *,
    description: str = "",
    epilog: str = "",
    is_table: bool = False,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Callable[[Callable[..., Awaitable[int]]], Command]:
    """Make a command of a function that takes a connection to an API, which the options of the server choose."""
    more = {**more, "server": Server}
    return command(summary, description=description, epilog=epilog, is_table=is_table, via=on_api, more=more)


@asynccontextmanager
async def open_connection(
    settings: Settings, server: ServerOptions, *, scheme: str = "ApiKey"
) -> AsyncIterator[ApiClient]:
    """Yield a connection; ``None`` means what the environment says. ``scheme`` is that of the key.

    Raises ``WrongUsage``, also if a project is named and the key does not belong to it; then ``RequestFailed``, too.
    """
    environment = read_client_environment()
    running = Running.read(Layout(settings.data_dir.resolve()))
    named = server.url or environment.url
    address = _checked_url(named or (running.api if running else DEFAULT_URL))
    hint = "" if named or running else f" {no_stack(settings)}, and --url or CLEARSPAN_URL names an API."
    given_key = _checked_key(environment.key if server.key is None else server.key)
    headers = {"Authorization": f"{scheme} {given_key}"} if given_key else {}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
    behind_proxy = urlsplit(address).hostname not in _LOOPBACK
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, trust_env=behind_proxy) as session:
        api = ApiClient(session, address, hint=hint)
        if server.project is not None:
            await api.require_project(server.project)
        yield api


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
        is_valid = is_valid and not parts.query and not parts.fragment
    except ValueError:
        is_valid = False
    if not is_valid:
        raise WrongUsage(f"{printable(url)!r} is not the address of an API; an example is {DEFAULT_URL}.")
    return url.rstrip("/")


def _checked_key(key: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise WrongUsage("the key contains characters that no key has.")
    return key.removeprefix("ApiKey ").strip()


def _reason(error: aiohttp.ClientConnectorError) -> str:
    """Return why there is no connection, as the system says it."""
    number = error.os_error.errno
    return os.strerror(number) if number is not None and number > 0 else printable(str(error.os_error))


def _failure(where: str, response: aiohttp.ClientResponse, text: str) -> RequestFailed:
    """Describe a response that is no success."""
    message = f"{where}: {response.status} {_detail(text) or response.reason or ''}".rstrip(". ") + "."
    if response.status == 401:
        message += f" Give a key with --key or CLEARSPAN_KEY; `{called('keys create NAME')}` creates one."
    if location := response.headers.get("Location"):
        message += f" It redirects to {printable(location)}; redirections are not followed."
    retry_after = response.headers.get("Retry-After", "")
    if retry_after:
        message += f" Retry after {printable(retry_after)} s."
    if request_id := response.headers.get("X-Request-Id"):
        message += f" (request {printable(request_id)})"
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else None
    return RequestFailed(message, status=response.status, retry_after_s=seconds)


def _detail(text: str) -> str:
    """Return the message of an error body: a text, an object with a message, or the problems of a 422."""
    try:
        detail = json.loads(text)["detail"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
    if isinstance(detail, list):
        shown = [_problem(problem) for problem in detail[:PROBLEMS_MAX]]
        more = len(detail) - len(shown)
        return "; ".join(shown) + (f"; and {more} more" if more else "")
    if isinstance(detail, dict):
        code = detail.get("operation_id")
        return printable(str(detail.get("message", detail))) + (f" (operation {code})" if code else "")
    return printable(str(detail))


def _problem(problem: object) -> str:
    if not isinstance(problem, dict):
        return printable(str(problem))
    location = problem.get("loc")
    path = ".".join(str(step) for step in location) if isinstance(location, list) else ""
    return printable(f"{path}: {problem.get('msg')}")
