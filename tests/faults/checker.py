"""What is stored, counted through the public API in four ways: by ids, by pages of a filter, by the feed, by groups.

A fifth reader, the follower, reads the feed while the fault is there.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from tests.faults.client import ApiClient, Json
from tests.faults.producer import Place, Sent
from tests.faults.spans import SHARDS, SPANS_PER_TRACE, trace_id_of

TRACES_PER_REQUEST: Final = 100
PAGE_SPANS: Final = 700
WAIT_S: Final = 2
EXAMPLES: Final = 5
QUIET_S: Final = 30.0
"""Longer than a reader may take to notice what is stored without an announcement."""


class Seen(NamedTuple):
    """A span as a response shows it."""

    number: int
    attempt: int

    @staticmethod
    def of(span: Json) -> Seen:
        marks = span["attributes"]["fault"]
        return Seen(marks["number"], marks["attempt"])


@dataclass
class Findings:
    """What is wrong: the good spans that a way of reading lacks or shows in an older version, and the rest in words.

    ``ways`` has what each way of reading has shown. ``admitted`` are missing spans whose loss the documents admit.
    """

    ways: dict[str, Mapping[Seen, int]] = field(default_factory=dict)
    missing: dict[str, set[int]] = field(default_factory=dict)
    admitted: set[int] = field(default_factory=set)
    seen_twice: int = 0
    others: list[str] = field(default_factory=list)

    @property
    def lost(self) -> set[int]:
        """The numbers of missing spans whose loss nothing admits."""
        return set().union(*self.missing.values()) - self.admitted

    def stored(self, sent: Sent) -> set[int]:
        """Return the numbers of the good spans that every way of reading has shown in their latest version."""
        shown = set.intersection(*(set(way) for way in self.ways.values()))
        latest = {number for number, attempt in sent.latest.items() if Seen(number, attempt) in shown}
        return latest - self.missing["groups"]

    @property
    def notes(self) -> list[str]:
        """Everything that is wrong, in words."""
        lost = {way: sorted(numbers - self.admitted) for way, numbers in self.missing.items()}
        missing = [
            f"{way}: {len(numbers)} spans are missing, such as {numbers[:EXAMPLES]}"
            for way, numbers in lost.items()
            if numbers
        ]
        return missing + self.others

    def lack(self, way: str, numbers: set[int]) -> None:
        """Note the spans that a way of reading lacks."""
        self.missing[way] = numbers

    def repeat(self, way: str, count: int, example: object) -> None:
        """Note how many spans a way of reading shows too often."""
        if count:
            self.seen_twice += count
            self.others.append(f"{way}: {count} spans too many, such as {example}")


class Follower:
    """Reads the feed of a project from its beginning in a thread, with both APIs in turn, through every fault."""

    def __init__(self, client: ApiClient) -> None:
        self.seen: Counter[Seen] = Counter()
        self._client = client
        self._position: str | None = None
        self._came_s = time.monotonic()
        self._read_to_end_s = 0.0
        """When it sent the latest request that found the end of the feed."""
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self, is_enough: Callable[[Counter[Seen]], bool], *, within_s: float) -> Counter[Seen]:
        """Return what was read to the end if it is enough, when nothing has come for ``QUIET_S``, or after the time.

        It reads to the end even if it has enough: what follows would be seen twice.
        """
        began_s = self._came_s = time.monotonic()
        while self._thread.is_alive() and not (is_enough(self.seen) and self._read_to_end_s > began_s):
            now_s = time.monotonic()
            if now_s - self._came_s > QUIET_S or now_s - began_s > within_s:
                break
            time.sleep(0.05)
        self._stopped.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self.seen

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._read_page()
        except BaseException as exc:  # noqa: BLE001 - raised again by `finish`
            self._failure = exc

    def _read_page(self) -> None:
        windowing: Json = {"by": "created_at", "limit": PAGE_SPANS, "wait_s": WAIT_S}
        if self._position is not None:
            windowing["next"] = self._position
        asked_s = time.monotonic()
        page = self._client.ask("/spans/query", {"windowing": windowing})
        if _is_the_end(page):
            self._read_to_end_s = asked_s
        self.seen.update(map(Seen.of, page["spans"]))
        if page["spans"]:
            self._came_s = time.monotonic()
        self._position = page["windowing"]["next"]


def check(client: ApiClient, round_name: str, sent: Sent, followed: Mapping[Seen, int]) -> Findings:
    """Compare what was sent with the four ways, and with what a follower has seen meanwhile."""
    findings = Findings()
    wanted = {Seen(number, attempt) for number, attempt in sent.latest.items()}
    ways: dict[str, Counter[Seen]] = {
        "ids": _by_ids(client, round_name, sent),
        "pages": Counter(map(Seen.of, pages_of(client))),
        "feed": _by_feed(client),
    }
    findings.ways = {**ways, "follower": followed}
    for way, found in ways.items():
        _compare_numbers(findings, way, found, sent)
    for way, shown in findings.ways.items():
        findings.lack(way, {number for number, _ in wanted - shown.keys()})
    _compare_groups(findings, client, sent)
    allowed = {Seen(*key): count + sent.joins[key[0]] for key, count in sent.copies.items()}
    _compare(findings, "follower", followed, allowed)
    return findings


def _compare_numbers(findings: Findings, way: str, found: Mapping[Seen, int], sent: Sent) -> None:
    """Each span is shown once, in whatever version; a span that nobody has sent is one too many."""
    counts: Counter[int] = Counter()
    for seen, count in found.items():
        counts[seen.number] += count
    extra = {number: count - (number in sent.latest) for number, count in counts.items()}
    findings.repeat(way, sum(extra.values()), next((number for number, count in extra.items() if count), None))


def _compare(findings: Findings, way: str, found: Mapping[Seen, int], allowed: Mapping[Seen, int]) -> None:
    extra = {seen: count - allowed.get(seen, 0) for seen, count in found.items() if count > allowed.get(seen, 0)}
    findings.repeat(way, sum(extra.values()), next(iter(extra.items()), None))


def _by_ids(client: ApiClient, round_name: str, sent: Sent) -> Counter[Seen]:
    traces = sorted(
        {trace_id_of(round_name, number // SPANS_PER_TRACE * SPANS_PER_TRACE).hex() for number in sent.latest}
    )
    found: Counter[Seen] = Counter()
    for first in range(0, len(traces), TRACES_PER_REQUEST):
        trace_ids = ",".join(traces[first : first + TRACES_PER_REQUEST])
        found.update(map(Seen.of, client.get("/spans/", {"trace_ids": trace_ids})["spans"]))
    return found


def pages_of(client: ApiClient) -> Iterator[Json]:
    """Read every span that has a number, page by page; a filter that all good spans match."""
    filtering = {"conditions": [{"field": "attributes", "key": "fault.number", "operator": "gte", "value": 0}]}
    windowing: Json = {"limit": PAGE_SPANS}
    while True:
        page = client.ask("/spans/query", {"filtering": filtering, "windowing": windowing})
        yield from page["spans"]
        if "windowing" not in page:
            return
        windowing = {"limit": PAGE_SPANS, "next": page["windowing"]["next"]}


def _by_feed(client: ApiClient) -> Counter[Seen]:
    found: Counter[Seen] = Counter()
    windowing: Json = {"by": "created_at", "limit": PAGE_SPANS}
    while True:
        page = client.ask("/spans/query", {"windowing": windowing})
        found.update(map(Seen.of, page["spans"]))
        if _is_the_end(page):
            return found
        windowing["next"] = page["windowing"]["next"]


def _is_the_end(page: Json) -> bool:
    """Whether there are no further spans: a page of the feed without spans may only be incomplete."""
    return not page["spans"] and "complete" not in page


def _compare_groups(findings: Findings, client: ApiClient, sent: Sent) -> None:
    """Compare the number of spans of each shard."""
    wanted = Counter(f"shard {number % SHARDS}" for number in sent.latest)
    body = {"group_by": [{"field": "attributes", "key": "fault.shard"}], "measures": [{"of": "count"}], "limit": 1_000}
    answer = client.ask("/spans/groups/query", body)
    found: dict[Any, int] = {
        next(iter(group["by"].values())): group["values"]["count"] for group in answer.get("groups", [])
    }
    known = set().union(*findings.missing.values())
    missing: set[int] = set()
    for shard in wanted.keys() | found.keys():
        of_shard = {number for number in sent.latest if f"shard {number % SHARDS}" == shard}
        difference = wanted[shard] - found.get(shard, 0)
        findings.repeat("groups", max(0, -difference), shard)
        # Groups do not say which span they lack: first those that other ways lack, then any.
        candidates = sorted(of_shard & known) + sorted(of_shard - known)
        missing |= set(candidates[: max(0, difference)])
    findings.lack("groups", missing)


def dead_letters_of(admin: ApiClient, *, oldest: datetime) -> list[Place]:
    """Return the places of all open dead letters since a time, one for each dead letter."""
    found: list[Place] = []
    parameters: dict[str, str | int] = {"oldest": oldest.isoformat(), "limit": 1_000}
    while True:
        page = admin.get("/admin/dead-letters", parameters)
        found += [
            Place(each["topic"], each["partition"], each["offset"], each.get("span_index"))
            for each in page["dead_letters"]
        ]
        if "windowing" not in page:
            return found
        parameters["next"] = page["windowing"]["next"]
