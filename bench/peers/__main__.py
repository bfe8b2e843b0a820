"""Measures peers of Clearspan: ``python -m bench.peers --peers jaeger,victoriatraces [SET] [SPANS]``.

Each gets the requests that ``bench.stack`` sends over OTLP/HTTP, one peer after the other. Processor time is that of its
process until it is idle, bytes are those of its files after it has ended. A peer is built with Go below ``.cache/peers``
unless its program is named: ``--peers jaeger,victoriatraces=/path/to/victoria-traces``. A peer that cannot be built is
left out.
"""

from __future__ import annotations

import asyncio
import json

from bench.command import add_set, parser_of
from bench.harness import table
from bench.peers.build import programs_of
from bench.peers.choice import peers_of
from bench.peers.measure import measure
from bench.peers.rows import remarks, rows, stage_of
from bench.processes import guarded


def main() -> None:
    """Measure a set; print the table and one JSON object."""
    parser = parser_of("peers", __doc__)
    add_set(parser, spans=100_000)
    parser.add_argument("--peers", type=peers_of, required=True, help="which peers, with commas between them")
    arguments = parser.parse_args()
    programs = programs_of(arguments.peers)
    with guarded():
        result = asyncio.run(measure(arguments.set, spans_count=arguments.spans, programs=programs.paths))
    results = {"peers": programs.remarks, stage_of(arguments.set): result}
    print(table(rows(results)), *remarks(results), sep="\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
