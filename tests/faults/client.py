"""The public API as a client uses it: both processes in turn, the next one when one is away."""

from __future__ import annotations

import http.client
import itertools
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

Json = dict[str, Any]
PATIENCE_S: Final = 120.0
RETRY_S: Final = 0.1
NONE: Final[Mapping[str, str]] = {}
AGAIN: Final = frozenset({429, 500, 502, 503, 504})
"""Statuses that a client repeats. 500 is counted: no fault outside excuses it."""


@dataclass
class ApiClient:
    """Sends requests with one authorization. ``failures`` has every answer 500."""

    addresses: Sequence[str]
    authorization: str
    failures: list[str] = field(default_factory=list)
    _turns: Iterator[int] = field(default_factory=itertools.count)

    def ask(
        self, path: str, body: Json | None = None, *, patience_s: float = PATIENCE_S, headers: Mapping[str, str] = NONE
    ) -> Json:
        """POST the body, or GET without one; repeat while the API is away. Raises ``AssertionError`` if it stays so."""
        deadline_s = time.monotonic() + patience_s
        while True:
            address = self.addresses[next(self._turns) % len(self.addresses)]
            try:
                return self._once(address + path, body, headers)
            except urllib.error.HTTPError as response:
                reason = f"{response.code} {response.read()[:500]!r}"
                if response.code == 500:
                    self.failures.append(f"{path}: {reason}")
                if response.code not in AGAIN:
                    raise AssertionError(f"{path} {json.dumps(body)[:500]}: {reason}") from None
            except (OSError, http.client.HTTPException) as error:
                reason = str(error)
            if time.monotonic() > deadline_s:
                raise AssertionError(f"{path} gets no answer within {patience_s:g} s: {reason}")
            time.sleep(RETRY_S)

    def get(self, path: str, parameters: Mapping[str, str | int]) -> Json:
        """GET with parameters."""
        return self.ask(f"{path}?{urlencode(parameters)}")

    def _once(self, url: str, body: Json | None, further: Mapping[str, str]) -> Json:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", "authorization": self.authorization, **further}
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as response:
            result: Json = json.load(response)
        return result
