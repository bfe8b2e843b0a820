"""A root's cumulative metrics: the sums over its whole trace, put into its attributes when it is shown (ADR 0005)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from common.json_numbers import json_number
from common.span import AMOUNTS, Metrics

TraceSums = Mapping[bytes, Metrics]
"""What all spans of a trace used together, by the id of the trace; traces that used nothing may be absent."""


def write_sums(attributes: dict[str, Any], sums: Metrics) -> None:
    """Override ``ag.metrics.{tokens,costs,errors}.cumulative`` where the sum is not zero and a number of JSON.

    Of tokens and costs, a member that nobody reported is absent.
    """
    metrics = attributes["ag"]["metrics"]
    for name, amounts in (("tokens", sums[0:3]), ("costs", sums[3:6])):
        if any(amounts) and all(map(math.isfinite, amounts)):
            metrics[name]["cumulative"] = {
                member: json_number(amount) for member, amount in zip(AMOUNTS, amounts, strict=True) if amount
            }
    if sums.errors and math.isfinite(sums.errors):
        metrics["errors"]["cumulative"] = json_number(sums.errors)
