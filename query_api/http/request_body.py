"""From the bytes of a request to what its handler takes: in this process if they are few, else in another one.

Reading a few megabytes of JSON can take seconds and holds the interpreter lock most of the time, in the event loop as well as
in a thread. So a body that is large, or becomes large when it is inflated, is read in a child process (ADR 0014).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from common.errors import TooLarge
from common.limits import KIB
from query_api.compute.pool import IN_PROCESS_BYTES_MAX, Compute
from query_api.http.content_encoding import inflate, inflate_by_magic
from query_api.request.json_body import read_body
from query_api.request.route import Prepare, PrepareContext

PREPARED_BYTES_MAX: Final = 4 * KIB
"""The same, on routes that prepare what they publish: a rejected span costs 8 µs, and two bytes can be one."""


@dataclass(frozen=True, slots=True)
class BodyRules:
    """How a route takes its body, and what came with it. Can be pickled."""

    model: type[BaseModel] | None
    """``None``: the body is taken as bytes."""

    required: bool
    prepare: Prepare | None
    content_encoding: str
    bytes_max: int
    values_max: int
    context: PrepareContext


async def read_request_body(compute: Compute, wire: bytes, rules: BodyRules) -> Any:
    """Return what ``read`` returns, without holding up the event loop. Raises ``Overloaded`` too."""
    bytes_max = PREPARED_BYTES_MAX if rules.prepare else IN_PROCESS_BYTES_MAX
    if len(wire) <= bytes_max:
        try:
            body = _inflated(wire, rules, bytes_max=min(bytes_max, rules.bytes_max))
        except TooLarge:
            if bytes_max >= rules.bytes_max:
                raise
        else:
            return _read_inflated(body, rules)
    return await compute.run(read, wire, rules)


def read(wire: bytes, rules: BodyRules) -> Any:
    """Inflate, parse, validate and prepare a body. Raises ``ServiceError`` where it cannot be taken."""
    return _read_inflated(_inflated(wire, rules, bytes_max=rules.bytes_max), rules)


def _inflated(wire: bytes, rules: BodyRules, *, bytes_max: int) -> bytes:
    body = inflate(wire, content_encoding=rules.content_encoding, bytes_max=bytes_max)
    return body if rules.model is not None else inflate_by_magic(body, bytes_max=bytes_max)


def _read_inflated(inflated: bytes, rules: BodyRules) -> Any:
    body: Any = inflated
    if rules.model is not None:
        values_max = None if rules.prepare else rules.values_max
        content_type = rules.context.content_type
        body = read_body(
            rules.model, inflated, content_type=content_type, required=rules.required, values_max=values_max
        )
    return rules.prepare(body, rules.context) if rules.prepare else body
