"""How a trace has settled, as responses show it (contract §3.6, ADR 0049)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import orjson
from pydantic import Field

from query_api.request.json_body import ApiModel


class SettledModel(ApiModel):
    """How a trace has settled."""

    at: str = Field(description="When, as ISO 8601.")
    reason: Literal["complete", "incomplete"] = Field(
        description="`complete`: it has a root, no span of it is running, every parent is a span of it, and nothing was"
        " stored of it for `CLEARSPAN_SETTLING_S`. `incomplete`: it lacked one of these for `CLEARSPAN_SETTLING_MAX_S`."
    )
    generation: int = Field(description="How often it has settled. A trace that changes settles again.")


class SettledFact(NamedTuple):
    """When and why a trace has settled, and how often."""

    at: str
    reason: str
    generation: int

    @property
    def json(self) -> bytes:
        """The member ``settled`` of a trace."""
        return orjson.dumps(self._asdict())
