"""A producer that sends the spans of a stack again and again, and scans over them meanwhile."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tests.support.stack import RunningStack

Json = dict[str, Any]
SPANS_PER_REQUEST: Final = 200
ROUTES: Final[Mapping[str, tuple[str, Callable[[Json], list[str]]]]] = {
    "spans": ("/spans/query", lambda page: [span["span_id"] for span in page["spans"]]),
    "traces": ("/traces/query", lambda page: [trace["trace_id"] for trace in page["traces"]]),
    "sessions": ("/spans/sessions/query", lambda page: page["session_ids"]),
    "users": ("/spans/users/query", lambda page: page["user_ids"]),
}


@dataclass(frozen=True)
class Corpus:
    """Spans of a day that no other test uses; those of a trace are spread over the whole day."""

    spans: Sequence[Json]
    name: str
    day: datetime

    @classmethod
    def of(cls, *, traces_count: int, spans_per_trace: int) -> Corpus:
        """Return ``traces_count`` traces of ``spans_per_trace`` spans; each trace has its own session and user."""
        name, day = f"sent again {uuid.uuid4()}", datetime(2025, 3, 1 + random.randrange(28), tzinfo=UTC)
        count = traces_count * spans_per_trace
        spans = []
        for number in range(count):
            trace, nth = number % traces_count, number // traces_count
            trace_id = uuid.uuid5(uuid.NAMESPACE_OID, f"{name} {trace}").hex
            start = day + timedelta(hours=1, milliseconds=100 * number)
            span = {
                "trace_id": trace_id,
                "span_id": f"{trace_id[:8]}{nth + 1:08x}",
                "span_name": name,
                "start_time": start.isoformat(),
                "end_time": (start + timedelta(milliseconds=50)).isoformat(),
                "attributes": {"ag": {"session": {"id": f"s-{trace_id}"}, "user": {"id": f"u-{trace_id}"}}},
            }
            spans.append(span if nth == 0 else {**span, "parent_id": f"{trace_id[:8]}{1:08x}"})
        return cls(spans, name, day)

    def expected(self, route: str) -> set[str]:
        """Return what the pages together must return, each once."""
        trace_ids = {span["trace_id"] for span in self.spans}
        return {
            "spans": {span["span_id"] for span in self.spans},
            "traces": trace_ids,
            "sessions": {f"s-{trace_id}" for trace_id in trace_ids},
            "users": {f"u-{trace_id}" for trace_id in trace_ids},
        }[route]

    def store(self, stack: RunningStack) -> None:
        """Send all spans and wait until they are found."""
        for first in range(0, len(self.spans), SPANS_PER_REQUEST):
            stack.ask("/tracing/spans/ingest", {"spans": self.spans[first : first + SPANS_PER_REQUEST]})
        question = {"filtering": self._filtering, "windowing": {"limit": 10_000}}
        stack.ask_until("/spans/query", question, lambda page: page["count"] == len(self.spans))

    def lost_and_repeated(self, stack: RunningStack, route: str, *, is_filtered: bool, **windowing: Any) -> list[str]:
        """Read all pages of a route; return what was not returned exactly once, and incomplete traces."""
        path, ids = ROUTES[route]
        bounds = {"oldest": self.day.isoformat(), "newest": (self.day + timedelta(days=1)).isoformat()}
        body: Json = {"filtering": self._filtering} if is_filtered else {}
        found: Counter[str] = Counter()
        incomplete: list[str] = []
        following: Json = {}
        while True:
            page = stack.ask(path, {**body, "windowing": {**bounds, **windowing, **following}})
            found.update(ids(page))
            if route == "traces":
                incomplete += [
                    trace["trace_id"] for trace in page["traces"] if spans_count(trace) != self._spans_per_trace
                ]
            if "windowing" not in page:
                break
            following = {"next": page["windowing"]["next"]}
        expected = self.expected(route)
        wrong = [f"{each} lost" for each in expected - found.keys()]
        wrong += [f"{each} given {count} times" for each, count in found.items() if each in expected and count != 1]
        return wrong + [f"{each} lacks spans" for each in incomplete if each in expected]

    @property
    def _filtering(self) -> Json:
        return {"conditions": [{"field": "span_name", "operator": "is", "value": self.name}]}

    @property
    def _spans_per_trace(self) -> int:
        return len(self.spans) // len({span["trace_id"] for span in self.spans})


def spans_count(trace: Json) -> int:
    """Return the number of spans of a trace or subtree."""
    members = (trace.get("spans") or {}).values()
    below = [span for member in members for span in (member if isinstance(member, list) else [member])]
    return sum(1 + spans_count(span) for span in below)


@contextmanager
def sending_again(stack: RunningStack, corpus: Corpus, *, per_s: float) -> Iterator[Callable[[], int]]:
    """Send random spans of the corpus again, at most ``per_s`` a second; the yielded function returns how many."""
    stopped = threading.Event()
    sent = 0

    def send() -> None:
        nonlocal sent
        began_s = time.monotonic()
        while not stopped.wait(max(0.0, began_s + sent / per_s - time.monotonic())):
            stack.ask("/tracing/spans/ingest", {"spans": [random.choice(corpus.spans)]})
            sent += 1

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield lambda: sent
    finally:
        stopped.set()
        thread.join()
