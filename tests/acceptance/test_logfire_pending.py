"""What Logfire 5.4.0 sent while a program ran, through the whole stack: spans are running until they end.

The program, with ``logfire.configure(token=…, service_name="planner", advanced=AdvancedOptions(base_url=…))``::

    with logfire.span("plan {city}", city="Lisbon"):
        with logfire.span("search {what!r}", what="hotels") as search:
            logfire.info("found {count}", count=3)
            time.sleep(1.6)
            search.set_attribute("hotels", 3)
        time.sleep(1.6)
        with logfire.span("short step"):
            pass
        time.sleep(1.6)

It sent four requests: both pending spans with the log, and one for each of the three spans that end.
"""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.acceptance.test_late_events import _post, _query
from tests.support.stack import RunningStack

DATA = Path(__file__).parents[1] / "data/running"
PLAN, SEARCH, FOUND, STEP = "plan Lisbon", "search 'hotels'", "found 3", "short step"
RUNNING, ENDED = "running", None


class Trace:
    """The requests of the program, as another trace each time."""

    def __init__(self, stack: RunningStack) -> None:
        self._stack = stack
        self._trace_id = uuid4().bytes

    def send(self, number: int) -> dict[str, str | None]:
        """Send a request; return the states of the spans of the trace by name."""
        message = ExportTraceServiceRequest.FromString((DATA / f"logfire-{number}.otlp_proto.bin").read_bytes())
        for spans in (scope.spans for resource in message.resource_spans for scope in resource.scope_spans):
            for span in spans:
                span.trace_id = self._trace_id
        coordinates = _post(self._stack.otlp + "/v1/traces", message.SerializeToString())
        condition = {"field": "trace_id", "operator": "is", "value": self._trace_id.hex()}
        answer = _query({"filtering": {"conditions": [condition]}}, self._stack, coordinates)
        states = {span["span_name"]: span.get("state") for span in answer["spans"]}
        assert len(states) == answer["count"]
        assert all(("end_time" in span) == (span.get("state") is None) for span in answer["spans"])
        return states


def test_pending_spans_run_until_they_end(stack: RunningStack) -> None:
    trace = Trace(stack)

    assert trace.send(1) == {PLAN: RUNNING, SEARCH: RUNNING, FOUND: ENDED}
    assert trace.send(2) == {PLAN: RUNNING, SEARCH: ENDED, FOUND: ENDED}
    assert trace.send(3) == {PLAN: RUNNING, SEARCH: ENDED, FOUND: ENDED, STEP: ENDED}
    assert trace.send(4) == {PLAN: ENDED, SEARCH: ENDED, FOUND: ENDED, STEP: ENDED}
    assert trace.send(1) == {PLAN: ENDED, SEARCH: ENDED, FOUND: ENDED, STEP: ENDED}


@pytest.mark.parametrize("order", [(4, 3, 2, 1), (2, 1, 1, 4, 3, 2)])
def test_order_of_the_requests_does_not_matter(stack: RunningStack, order: tuple[int, ...]) -> None:
    trace = Trace(stack)

    states = [trace.send(number) for number in order]

    assert states[-1] == {PLAN: ENDED, SEARCH: ENDED, FOUND: ENDED, STEP: ENDED}
    for name in states[-1]:
        known = [state[name] for state in states if name in state]
        assert set(known[known.index(ENDED) :]) == {ENDED}
