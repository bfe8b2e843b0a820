"""Measures what masking rules cost: decodes spans of one project without rules and with several sets of rules.

One process, one thread. The sets of rules take turns and are measured in processor time, so that other load affects all
of them. ``llm`` is the set of the ingest benchmark, ``llm, each text once`` the same without texts that repeat,
``every instrumentation`` the samples of all of them, and ``plain`` has spans of no instrumentation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.command import HELP, parser_of
from bench.harness import median
from bench.semconv import RULES, SPANS, chunk_of, sample_records
from bench.varied import llm_records, plain_records
from common.ids import DEFAULT_PROJECT_ID
from common.masking import NO_MASKS, MaskAction, MaskRule, ProjectRules, pack
from common.memory import tune_for_batches
from ingest.decoding.chunk import Chunk, decode_chunk
from ingest.masking.dead_letters import Masking

LONGER: Final = 30
NO_RULES: Final = "no rules"
RULE_SETS: Final[Mapping[str, Sequence[MaskRule]]] = {
    NO_RULES: (),
    "a key that no span has": (MaskRule(MaskAction.REDACT, "user.email"),),
    "a key with a wildcard": (MaskRule(MaskAction.REDACT, "*password*"),),
    "a key that is masked in each span": (
        MaskRule(MaskAction.HASH, "request.*"),
        MaskRule(MaskAction.HASH, "*.mime_type"),
    ),
    "an expression": (MaskRule(MaskAction.REDACT, value=r"\bsk-[A-Za-z0-9]{20,}"),),
    "eight rules": (
        MaskRule(MaskAction.HASH, "user.email"),
        MaskRule(MaskAction.DROP, "http.request.header.*"),
        MaskRule(MaskAction.REDACT, "*password*"),
        MaskRule(MaskAction.REDACT, "*.secret"),
        MaskRule(MaskAction.REDACT, value=r"\bsk-[A-Za-z0-9]{20,}"),
        MaskRule(MaskAction.HASH, value=r"[\w.+-]+@[\w-]+\.[\w.]+"),
        MaskRule(MaskAction.REDACT, value=r"\b(?:\d[ -]?){13,16}\b"),
        MaskRule(MaskAction.REDACT, value=r"(?i)bearer\s+[a-z0-9._-]{16,}"),
    ),
}


def measure(*, rounds: int) -> dict[str, Any]:
    """Return per set of spans the medians over ``rounds``: spans per second without rules, the shares with rules."""
    sets = {
        "llm": llm_records(SPANS),
        "llm, each text once": each_text_once(llm_records(SPANS)),
        "every instrumentation": sample_records(),
        "plain": plain_records(SPANS),
    }
    return {name: _compared(chunk_of(values), rounds=rounds) for name, values in sets.items()}


def each_text_once(values: Iterable[bytes]) -> Iterator[bytes]:
    """Yield OTLP records with a number in each longer text of an attribute; JSON stays JSON."""
    number = count()
    for value in values:
        request = ExportTraceServiceRequest.FromString(value)
        spans = (span for group in request.resource_spans for scope in group.scope_spans for span in scope.spans)
        for attribute in chain.from_iterable(span.attributes for span in spans):
            text = attribute.value.string_value
            if len(text) > LONGER and text[0] == "{":
                attribute.value.string_value = f'{{"n":{next(number)},{text[1:]}'
            elif len(text) > LONGER:
                attribute.value.string_value = f"{text} {next(number)}"
        yield request.SerializeToString()


def _compared(chunk: Chunk, *, rounds: int) -> dict[str, Any]:
    chunks = {
        name: replace(
            chunk, masking=Masking(pack({DEFAULT_PROJECT_ID: ProjectRules(tuple(rules), b"k")}) if rules else NO_MASKS)
        )
        for name, rules in RULE_SETS.items()
    }
    for each in chunks.values():
        decode_chunk(each, RULES)
    speeds: dict[str, list[float]] = {name: [] for name in chunks}
    for _ in range(rounds):
        for name, each in chunks.items():
            speeds[name].append(_spans_per_s(each))
    bare = speeds[NO_RULES]
    shares = {
        name: round(median([with_rules / without for with_rules, without in zip(found, bare, strict=True)]), 2)
        for name, found in speeds.items()
        if name != NO_RULES
    }
    return {"spans_per_s": round(median(bare)), **shares}


def _spans_per_s(chunk: Chunk) -> float:
    started_s = time.process_time()
    decoded = decode_chunk(chunk, RULES)
    return sum(outcome.rows_count for outcome in decoded.outcomes) / (time.process_time() - started_s)


def main() -> None:
    """Measure all sets in this process; print one JSON object."""
    parser = parser_of("masking", __doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=7, help=HELP["rounds"] + " (%(default)s)")
    rounds: int = parser.parse_args().rounds
    tune_for_batches()
    print(json.dumps(measure(rounds=rounds), indent=1))


if __name__ == "__main__":
    main()
