"""What traces used together: sums written into the JSON of their roots, and as queries that filters read.

The rule is in ``common/usage.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from json import JSONDecoder
from typing import Any, Final
from uuid import UUID

import orjson

from common.clickhouse.select import Select
from common.json_values import json_number
from common.span import AMOUNTS, Metrics
from common.usage import reports_alone, trace_sums
from query_api.filter.sql.sums import USAGE_OF
from query_api.spans.versions import latest_versions

TraceSums = Mapping[bytes, Metrics]
"""What all spans of a trace used together, by trace id; traces that used nothing may be missing."""

_METRICS_NAME: Final = b'"metrics":{'
_METRICS_BYTES_MAX: Final = 2_048
"""A longer object is parsed with everything else."""

_DECODER: Final = JSONDecoder()


def usage_queries(sql: str, project_id: UUID) -> dict[str, Select]:
    """Return the queries of ``USAGE_OF`` that a statement names: the sums of every trace of the project."""
    return {
        name: trace_sums(reports_alone(latest_versions(project_id), [metric]), chain=name)
        for metric, name in USAGE_OF.items()
        if name in sql
    }


def write_sums(attributes: dict[str, Any], sums: Metrics) -> None:
    """Set ``ag.metrics.{tokens,costs,errors}.cumulative`` of a root to the sums over its trace (ADR 0005).

    Sums that are zero or not finite change nothing. A part of tokens or costs that no span reports is absent.
    """
    _write_into(attributes["ag"]["metrics"], sums)


def _write_into(metrics: dict[str, Any], sums: Metrics) -> None:
    for name, amounts in (("tokens", sums[0:3]), ("costs", sums[3:6])):
        if any(amounts) and all(map(math.isfinite, amounts)):
            metrics[name]["cumulative"] = {
                member: json_number(amount) for member, amount in zip(AMOUNTS, amounts, strict=True) if amount
            }
    if sums.errors and math.isfinite(sums.errors):
        metrics["errors"]["cumulative"] = json_number(sums.errors)


def with_sums(attributes: bytes, sums: Metrics) -> bytes:
    """Return the stored JSON of the attributes of a root with the sums over its trace, as ``write_sums`` writes them.

    Only ``ag.metrics``, which every span has, is parsed: a fifth of the time if the attributes are 3 KB. It is the
    object after its name, unless that name occurs again.
    """
    begin = attributes.find(_METRICS_NAME)
    if begin >= 0 and attributes.find(_METRICS_NAME, begin + 1) < 0:
        begin += len(_METRICS_NAME) - 1
        beginning = attributes[begin : begin + _METRICS_BYTES_MAX]
        with suppress(ValueError):
            metrics, length = _DECODER.raw_decode(beginning.decode("latin-1"))  # so that a character is a byte
            if beginning[:length].isascii():
                _write_into(metrics, sums)
                return attributes[:begin] + orjson.dumps(metrics) + attributes[begin + length :]
    parsed = orjson.loads(attributes)
    write_sums(parsed, sums)
    return orjson.dumps(parsed)
