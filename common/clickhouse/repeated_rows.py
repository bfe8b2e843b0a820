"""Rows of one version of a span: a record may hold a span twice, and the last one counts (contract §4).

The table ``spans`` keeps every row it is given, and nothing in it tells these apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_VERSION: Final = ("project_id", "start_us", "span_id", "trace_id", "partition_id", "version")
_ROW: Final = "row"


def without_repeated(rows: pa.Table) -> tuple[pa.Table, Sequence[int]]:
    """Return the last row of each version of a span, in the order of ``rows``, and the indexes that they have there.

    ``rows`` are in one piece. Takes 0.1 µs a row unless an id of a span occurs twice.
    """
    if pc.count_distinct(rows.column("span_id")).as_py() == rows.num_rows:
        return rows, range(rows.num_rows)
    numbers = pa.Array.from_buffers(
        pa.int64(), rows.num_rows, [None, pa.py_buffer(np.arange(rows.num_rows))]
    )  # not `pa.array`, which imports pandas
    versions = rows.select(_VERSION).append_column(_ROW, numbers).group_by(_VERSION).aggregate([(_ROW, "max")])
    last = np.sort(versions.column(f"{_ROW}_max").to_numpy())
    if len(last) == rows.num_rows:
        return rows, range(rows.num_rows)
    return rows.take(pa.Array.from_buffers(pa.int64(), len(last), [None, pa.py_buffer(last)])), last.tolist()
