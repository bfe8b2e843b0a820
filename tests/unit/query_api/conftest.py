"""A server a test may talk to: the name of the fixture is what lets a unit test connect to loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import aiohttp
import pytest

from query_api.http.routes import ROUTES
from query_api.request.context import ApiContext
from query_api.request.route import Route
from tests.support.api import serving

Client = Callable[..., Awaitable[aiohttp.ClientSession]]


@pytest.fixture
async def aiohttp_client() -> AsyncIterator[Client]:
    async with AsyncExitStack() as resources:

        async def start(context: ApiContext, *, routes: tuple[Route, ...] = ROUTES) -> aiohttp.ClientSession:
            return await resources.enter_async_context(serving(context, routes=routes))

        yield start
