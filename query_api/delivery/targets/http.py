"""Send to a target over HTTP: which responses are retried, and which pause the subscription (contract §9)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import aiohttp
from multidict import CIMultiDictProxy

from common.errors import RETRY_AFTER_S_MAX, Overloaded
from query_api.delivery.addresses import AddressRules, RefusedAddressError
from query_api.delivery.targets.target import TargetRefused, TargetUnavailable

RESPONSE_BYTES_MAX: Final = 1024 * 1024
"""How much of a response is read."""

DRAIN_S: Final = 1.0
"""How long a success waits for the end of a response that nobody reads."""

USER_AGENT: Final = "clearspan"
_RETRIED: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class HttpSender:
    """Sends bodies to one address. Redirects are not followed, and cookies are not kept."""

    def __init__(self, url: str, *, timeout_s: float, rules: AddressRules) -> None:
        self._url = url
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._timeout_s = timeout_s
        self._rules = rules
        self._session: aiohttp.ClientSession | None = None

    async def post(self, body: bytes, headers: Mapping[str, str], *, reads_response: bool) -> bytes:
        """Return when the target has acknowledged, with the body of its response if ``reads_response``.

        The status decides, whatever body follows. Raises ``TargetUnavailable`` or ``TargetRefused``.
        """
        try:
            async with self._open().post(
                self._url, data=body, headers={"User-Agent": USER_AGENT, **headers}, allow_redirects=False
            ) as response:
                _raise_for(response.status, response.headers)
                return await (_beginning if reads_response else _drain)(response.content)
        except RefusedAddressError as exc:
            raise TargetRefused(f"{exc}.") from exc
        except Overloaded as exc:
            raise TargetUnavailable(exc.public_message) from exc
        except TimeoutError as exc:
            raise TargetUnavailable(f"The target did not answer within {self._timeout_s:g} s.") from exc
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            if (refused := _refused(exc)) is not None:
                raise TargetRefused(f"{refused}.") from exc
            raise TargetUnavailable(f"The target cannot be reached: {_words(exc)}.") from exc

    async def check(self) -> str | None:
        """Return why nothing listens at the address, or ``None``. It sends no request that the target could count."""
        try:
            async with asyncio.timeout(min(self._timeout_s, 5.0)):
                async with self._open().head(self._url, allow_redirects=False):
                    return None
        except TimeoutError:
            return "it does not answer"
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            return _words(exc)

    async def close(self) -> None:
        """Close the connections. Safe to call twice."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=self._rules.connector(),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session


async def _beginning(content: aiohttp.StreamReader) -> bytes:
    """Return the body of a response, of a large one the beginning."""
    found = bytearray()
    while len(found) < RESPONSE_BYTES_MAX and (chunk := await content.read(RESPONSE_BYTES_MAX - len(found))):
        found += chunk
    return bytes(found)


async def _drain(content: aiohttp.StreamReader) -> bytes:
    """Read to the end of a short response, so that its connection can be used again; a long one is given up."""
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(DRAIN_S):
            await _beginning(content)
    return b""


def _raise_for(status: int, headers: CIMultiDictProxy[str]) -> None:
    if 200 <= status < 300:
        return
    answered = f"The target answered {status}"
    if status in _RETRIED or status >= 500:
        raise TargetUnavailable(f"{answered}.", retry_after_s(headers.get("Retry-After")))
    if 300 <= status < 400:
        raise TargetRefused(f"{answered}, a redirect, which is not followed: give the address to which it leads.")
    raise TargetRefused(f"{answered}.")


def retry_after_s(header: str | None) -> float | None:
    """Return the seconds that ``Retry-After`` asks for, as a number or a date; at most a day."""
    if header is None:
        return None
    with suppress(ValueError, OverflowError):
        if header.strip().isdecimal():
            return min(float(header), RETRY_AFTER_S_MAX)
        moment = parsedate_to_datetime(header)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return min(max((moment - datetime.now(UTC)).total_seconds(), 0.0), RETRY_AFTER_S_MAX)
    return None


def _refused(exc: BaseException | None) -> RefusedAddressError | None:
    """Return the error of the address among the causes of an error."""
    seen: list[BaseException] = []
    while exc is not None and exc not in seen:
        if isinstance(exc, RefusedAddressError):
            return exc
        seen.append(exc)
        if isinstance(exc, BaseExceptionGroup):
            return next((found for each in exc.exceptions if (found := _refused(each)) is not None), None)
        exc = getattr(exc, "os_error", None) or exc.__cause__ or exc.__context__
    return None


def _words(exc: Exception) -> str:
    return str(exc).rstrip(".") or type(exc).__name__
