"""Metrics of another process, as Prometheus reads them."""

from __future__ import annotations

import urllib.request


def counter(address: str, name: str) -> float:
    """Return a counter at ``<address>/metrics``, the sum over its labels; 0 if it is absent."""
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))
