"""The routes of saved queries (reference ``spans-api`` §9)."""

from __future__ import annotations

from typing import Final

from query_api.registry.names import QUERIES
from query_api.registry.queries_handlers import HANDLERS
from query_api.registry.queries_models import SHAPES
from query_api.registry.routes import Words, history_routes

WORDS: Final = Words(one="a saved query", several="saved queries", tag="Query", tags="Queries")

QUERY_ROUTES: Final = history_routes(QUERIES, WORDS, handlers=HANDLERS, shapes=SHAPES)
