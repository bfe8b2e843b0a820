"""See the proof fail: remove one guard at a time, and play the scenarios that must notice.

``python -m tests.faults.mutations`` copies the code to a temporary directory for each mutation, changes the copy, plays
its scenarios there until they fail, and prints a table. The exit code is 0 only if each of them has failed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.faults.processes import ROOT
from tests.support.process_guard import ProcessGuard

PACKAGES: Final = ("clearspan", "common", "ingest", "query_api", "tests")
TRIES: Final = 3
PLAYED_S: Final = 600.0
SEED: Final = "7"
NOTE: Final = re.compile(r"^ {6}(\S.*)", re.MULTILINE)
"""What a failed round reports."""

WRONG_SPANS: Final = r"spans are missing|spans too many"
"""What a reader of the API finds."""


class Edit(NamedTuple):
    """A change of a file: every ``before`` becomes ``after``."""

    file: str
    before: str
    after: str


NO_TOPIC_IDS: Final = Edit("common/kafka/topics.py", "{self.topic_ids.get(partition.topic, '')}", "")
"""Partition ids without the id of the topic."""


class Mutation(NamedTuple):
    """A guard, the edits that remove it, the scenarios that must fail without it, and what they must report.

    ``second`` names another guard that alone keeps the promise: then nothing fails.
    """

    guard: str
    edits: Sequence[Edit]
    scenarios: Sequence[str]
    reports: str = WRONG_SPANS
    second: str = ""


MUTATIONS: Final = (
    Mutation(
        "only what is stored is committed, never what is merely read",
        (
            Edit(
                "common/kafka/consumer.py",
                "enable_auto_commit=False,",
                "enable_auto_commit=True, auto_commit_interval_ms=50,",
            ),
        ),
        (
            "kill_workers",
            "kill_after_decode",
            "kill_in_a_rebalance",
            "kill_in_a_drain",
            "end_workers_in_turn",
            "workers_come_and_go",
        ),
    ),
    Mutation(
        "what was read is stored before partitions move, or it is not committed",
        (
            Edit(
                "common/kafka/consumer.py",
                "enable_auto_commit=False,",
                "enable_auto_commit=True, auto_commit_interval_ms=50,",
            ),
            Edit(
                "ingest/worker.py",
                "            await self._drain(asyncio.timeout(REVOKE_FLUSH_S))\n",
                "            await self._discard()\n",
            ),
        ),
        ("third_worker_joins_and_leaves",),
    ),
    Mutation(
        "a record is known by its place in Kafka, not by its worker",
        (
            Edit("common/kafka/consumer.py", "import asyncio\n", "import asyncio\nimport os\n"),
            Edit(
                "common/kafka/consumer.py",
                "return self._topics.partition_id(partition)",
                'return f"{os.getpid()}-{self._topics.partition_id(partition)}"',
            ),
        ),
        (
            "kill_after_insert",
            "kill_after_position",
            "kill_after_dead_letters",
            "sleeping_workers_wake_up",
        ),
    ),
    Mutation(
        "the position of a partition is recorded after the insert",
        (
            Edit(
                "ingest/flush.py",
                "        if batch.rows_count:\n            spans = SpanRows",
                "        await self._positions.record(batch)\n        if batch.rows_count:\n            spans = SpanRows",
            ),
        ),
        ("clickhouse_is_slow",),
    ),
    Mutation(
        "offsets are committed after the dead letters",
        (
            Edit(
                "ingest/flush.py",
                '            await self._timed("dead_letter", self._dead_letter(batch, rejected))\n'
                "            self._ledger.mark_done(batch.records)\n"
                '            await self._timed("commit", self._commit())\n',
                "            self._ledger.mark_done(batch.records)\n"
                '            await self._timed("commit", self._commit())\n'
                '            await self._timed("dead_letter", self._dead_letter(batch, rejected))\n',
            ),
        ),
        ("kill_after_commit",),
        reports="dead letters are missing",
    ),
    Mutation(
        "an insert that fails for a passing reason is repeated until it is stored",
        (
            Edit(
                "ingest/flush.py",
                "                rejected |= await self._retry.until_done(write, component=sink.name)\n",
                "                try:\n                    rejected |= await write()\n"
                "                except Exception:\n                    pass\n",
            ),
        ),
        (
            "clickhouse_refuses",
            "clickhouse_hangs",
            "clickhouse_is_killed",
            "clickhouse_cuts_connections",
            "clickhouse_is_read_only",
            "clickhouse_is_out_of_disk",
            "clickhouse_answers_500",
        ),
    ),
    Mutation(
        "a repeated insert changes nothing: it has the token of its records",
        (
            Edit("ingest/clickhouse_sink.py", "import asyncio\n", "import asyncio\nimport uuid\n"),
            Edit("ingest/clickhouse_sink.py", "dedup_token=token,", "dedup_token=uuid.uuid4().hex,"),
        ),
        ("clickhouse_resets_after_inserts",),
        second="readers keep one row of each version",
    ),
    Mutation(
        "rows that the engine rejects are separated from those that it accepts",
        (Edit("ingest/clickhouse_sink.py", "if rows.num_rows == 1:", "if True:"),),
        ("clickhouse_rejects_a_span",),
        reports="spans are missing|dead letters",
    ),
    Mutation(
        "a dead letter is stored before its record is committed",
        (
            Edit(
                "ingest/dead_letter.py",
                "        await self._retry.until_done(lambda: self._store.insert(rows), component=STORE)\n",
                "        del rows\n",
            ),
        ),
        ("kafka_is_restarted",),
        reports="dead letters are missing",
    ),
    Mutation(
        "a project is unknown only if Postgres says so",
        (
            Edit(
                "ingest/worker.py",
                '            self._readiness.waits_for("projects", exc.detail)\n'
                "            await self._idle()\n            return None\n",
                "            return frozenset(unchecked)\n",
            ),
        ),
        ("postgres_is_away",),
        reports="spans are missing|dead letters of good",
    ),
    Mutation(
        "a slow answer of Postgres is waited for",
        (
            Edit(
                "ingest/worker.py",
                "if not await self._dependencies.projects.exists(project)]",
                "if not await _at_once(self._dependencies.projects.exists(project))]",
            ),
            Edit(
                "ingest/worker.py",
                "class Worker:\n",
                "async def _at_once(asked):\n    try:\n        return await asyncio.wait_for(asked, 1.0)\n"
                "    except TimeoutError:\n        return False\n\n\nclass Worker:\n",
            ),
        ),
        ("postgres_is_slow",),
        reports="spans are missing|dead letters of good",
    ),
    Mutation(
        "a transaction is acknowledged when Postgres has committed it",
        (
            Edit(
                "common/postgres/pool.py",
                "            with translated():\n                await transaction.commit()\n",
                "            with suppress(Exception):\n                await transaction.commit()\n",
            ),
        ),
        ("postgres_cuts_transactions",),
        reports="commit",
    ),
    Mutation(
        "how far a partition is stored is read by offset, not by a clock",
        (
            Edit(
                "query_api/request/progress.py",
                "before.offset < position.through_offset",
                "before.stored_us < position.stored_us",
            ),
        ),
        ("clocks_jump",),
    ),
    Mutation(
        "one bad span costs one span",
        (
            Edit(
                "ingest/decode.py",
                "    if project is not None:\n        return _with_content",
                "    if len(decoded.rejections):\n        return empty\n"
                "    if project is not None:\n        return _with_content",
            ),
        ),
        ("bad_records_and_spans", "flood_of_bad_spans"),
        reports="spans are missing|dead letters of good",
    ),
    Mutation(
        "a partition is held when nobody can decode its records",
        (Edit("ingest/partitions.py", "if count > self._streak_max:", "if False:"),),
        ("flood_that_nobody_can_decode",),
        reports="/readyz",
    ),
    Mutation(
        "a batch may hold spans of any age",
        (
            Edit(
                "common/clickhouse/engines.py",
                '"max_partitions_per_insert_block": 0,',
                '"max_partitions_per_insert_block": 3,',
            ),
        ),
        ("spans_over_200_days", "spans_that_end_before_they_start"),
        reports="spans are missing|dead letters of good|not committed within",
    ),
    Mutation(
        "all APIs sign cursors with one secret",
        (
            Edit("query_api/http/app.py", "import asyncio\n", "import asyncio\nimport os\n"),
            Edit("query_api/http/app.py", "cursor_secret=secret)", "cursor_secret=os.urandom(32))"),
        ),
        ("kill_both_apis",),
        reports="cursor|400",
    ),
    Mutation(
        "a topic that is created again is another topic",
        (NO_TOPIC_IDS,),
        ("topic_is_created_again",),
        reports=f"gap|not committed within|{WRONG_SPANS}",
    ),
    Mutation(
        "records that Kafka has deleted unread are named",
        (Edit("common/http/health.py", "if readiness.gaps else {}", "if False else {}"),),
        ("kafka_deletes_unread_records",),
        reports="gap",
    ),
    Mutation(
        "the embedded broker reads what it has on disk",
        (
            Edit(
                "clearspan/embedded/broker_server/partition.py",
                'sorted(int(path.stem) for path in directory.glob("*.log")) or [0]',
                '([path.unlink() for path in directory.glob("*.log")] and None) or [0]',
            ),
        ),
        ("kill_the_embedded_stack",),
    ),
    Mutation(
        "the end of a span wins over its starts in all partitions",
        (
            Edit(
                "common/span_version.py",
                "return 2 * (version >= ENDED) + (version % 2 == 0)",
                "return version % 2 == 0",
            ),
            Edit("common/span_version.py", 'f"2 * (version >= {ENDED}) + (version % 2 = 0)"', '"version % 2 = 0"'),
        ),
        ("spans_run_and_end",),
    ),
)


def copy_of(mutation: Mutation, directory: Path) -> None:
    """Copy the code to ``directory`` without the guard. Raises ``ValueError`` if the guard is not where it was."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / package, directory / package, ignore=ignored)
    (directory / ".cache").symlink_to(ROOT / ".cache")
    for edit in mutation.edits:
        file = directory / edit.file
        text = file.read_text()
        if edit.before not in text:
            raise ValueError(f"{edit.file} does not have the text {edit.before!r}")
        file.write_text(text.replace(edit.before, edit.after))


def failure_of(mutation: Mutation, directory: Path, scenario: str) -> tuple[bool, str]:
    """Play a scenario in a copy until it fails; return whether it reports what it must, and what it reports."""
    options = ("--rounds", str(TRIES), "--seed", SEED, "--only", scenario, "--stop")
    command = [sys.executable, "-m", "tests.faults", *options]
    try:
        played = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=PLAYED_S, check=False)
    except subprocess.TimeoutExpired:
        return False, f"no end within {PLAYED_S:g} s"
    if played.returncode == 0:
        return False, "nothing"
    notes = NOTE.findall(played.stdout)
    expected = [note for note in notes if re.search(mutation.reports, note)]
    return bool(expected), (expected or notes or played.stderr.splitlines() or ["no output"])[0]


def main() -> int:
    """Play the mutations; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutations", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="SCENARIO", help="only mutations and scenarios with these names")
    options = parser.parse_args()
    survivors = 0
    print("| guard | file | scenario | what failed without it |\n|---|---|---|---|", flush=True)  # noqa: T201
    for mutation in MUTATIONS:
        for scenario in mutation.scenarios:
            if options.only and scenario not in options.only:
                continue
            with tempfile.TemporaryDirectory(prefix="clearspan-mutation-") as directory:
                copy_of(mutation, Path(directory))
                is_noticed, report = failure_of(mutation, Path(directory), scenario)
            survivors += not is_noticed and not mutation.second
            file = mutation.edits[-1].file
            print(  # noqa: T201
                f"| {mutation.guard} | `{file}` | {scenario.replace('_', ' ')} |"
                f" {'' if is_noticed else 'NOT NOTICED: ' * (not mutation.second)}{report}"
                f"{': ' * bool(mutation.second)}{mutation.second} |",
                flush=True,
            )
    return 1 if survivors else 0


if __name__ == "__main__":
    guard = ProcessGuard()
    try:
        code = main()
    finally:
        guard.close()
    sys.exit(code)
