"""``python -m ingest``: the worker alone, with settings from the environment."""

from __future__ import annotations

import sys

from ingest.app import run

if __name__ == "__main__":
    sys.exit(run())
