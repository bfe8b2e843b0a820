"""``python -m ingest.decoding.child <requests> <answers>``: the process that opens chunks; started by ``processes.py``.

Two open pipes are all it knows of the world: rules first, then chunks, an answer to each. It ends when nobody writes
to it any more, so it cannot outlive its worker, and it leaves signals to the worker: that drains with it.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from importlib.abc import MetaPathFinder
from typing import Any, BinaryIO

from common.clickhouse.span_columns import warm_up
from common.memory import tune_for_batches
from ingest.consume import Rules
from ingest.decoding.chunk import Chunk, decode_chunk
from ingest.decoding.ipc import Failure, receive, send


class _NoPandas(MetaPathFinder):
    """Arrow asks of each list whether it is a pandas one, and loads pandas to know: a second and 40 MB for nothing."""

    def find_spec(self, fullname: str, _path: Any, _target: Any = None, /) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def main() -> None:
    """Answer until nobody asks any more."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    sys.meta_path.insert(0, _NoPandas())
    warm_up()
    tune_for_batches()
    requests, answers = (int(number) for number in sys.argv[1:3])
    try:
        serve(os.fdopen(requests, "rb"), os.fdopen(answers, "wb"))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the worker has gone; what was read ahead is of use to nobody


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer each chunk with the opened one, or with ``Failure``. Raises ``EOFError`` at the end of ``requests``."""
    rules: Rules = receive(requests)
    while True:
        chunk: Chunk = receive(requests)
        send(answers, _decoded(chunk, rules))


def _decoded(chunk: Chunk, rules: Rules) -> Any:
    try:
        return decode_chunk(chunk, rules)
    except Exception:  # noqa: BLE001 - whatever it is, the worker has to know, and decides
        return Failure(traceback.format_exc())


if __name__ == "__main__":
    main()
