"""Metrics of another process, as Prometheus reads them."""

from __future__ import annotations

import urllib.request


def metric(address: str, beginning: str) -> float:
    """Return the sum of the metrics at ``<address>/metrics`` whose line starts so; 0 without any."""
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(beginning))
