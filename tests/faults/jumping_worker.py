"""A worker whose clock jumps by up to an hour, back and forth: ``python -m tests.faults.jumping_worker SEED``."""

from __future__ import annotations

import random
import sys
import time
from typing import Final

from clearspan.cli import main
from common.times import SystemClock

JUMP_NS: Final = 3_600_000_000_000
EVERY_S: Final = 0.7

if __name__ == "__main__":
    source = random.Random(int(sys.argv[1]))
    jumps = [source.randrange(-JUMP_NS, JUMP_NS) for _ in range(100)]

    def now_ns() -> int:
        return time.time_ns() + jumps[int(time.monotonic() / EVERY_S) % len(jumps)]

    SystemClock.now_ns = staticmethod(now_ns)
    sys.argv[1:] = ["ingest"]
    main()
