"""How far the process has come: its singletons, and what it still waits for while it starts.

The API listens from the first moment, so that ``/readyz`` can say what is missing; until ``waits_for`` is empty every
route that is not public answers 503.
"""

from __future__ import annotations

from dataclasses import dataclass

from query_api.request.context import ApiContext


@dataclass(slots=True)
class StartupState:
    """The one value of the process that changes, once: when what the start waits for is there."""

    context: ApiContext
    waits_for: str = ""
    """A sentence that says what is missing, empty once nothing is."""
