"""What a commit keeps of a saved query, and what it refuses: a query that could not be run is not saved (contract §3.4)."""

from __future__ import annotations

from typing import Final

from query_api.filter.parse import parse
from query_api.filter.sql.compile import compile_filter
from query_api.registry.bodies import RevisionData
from query_api.registry.history import Snapshot
from query_api.registry.queries_models import SAVED_AT, QueryData
from query_api.spans.windowing import Focus, refuse_feed, refuse_unfit

WINDOWING_AT: Final = "data.windowing"


def snapshot(data: RevisionData | None) -> Snapshot:
    """What is stored; of empty data nothing. Raises ``InvalidInput`` for what the routes that run it would refuse."""
    if data is None:
        return Snapshot(None, None)
    assert isinstance(data, QueryData)  # noqa: S101 - the bodies of saved queries have no other
    compile_filter(parse(data.filtering, path=SAVED_AT))
    _refuse_illegal_window(data)
    text = data.text()
    return Snapshot(None if text == "{}" else text, None)


def _refuse_illegal_window(data: QueryData) -> None:
    if data.windowing is None:
        return
    is_about_traces = data.formatting is not None and data.formatting.focus is Focus.TRACE
    (refuse_feed if is_about_traces else refuse_unfit)(data.windowing, at=WINDOWING_AT)
