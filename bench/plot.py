"""Draw each figure of the performance table over the number of spans: ``python -m bench.plot FILE...``.

The files are the JSON of ``python -m bench`` at several scales. Writes one ``docs/images/performance-NAME.svg`` for each
chart, with a logarithmic axis of spans. The lines are readable on light and on dark pages.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from bench.command import parser_of
from bench.peers.choice import PEERS
from bench.peers.rows import stage_of
from bench.queries import MIXED, OPERATION, TRACE

IMAGES: Final = Path(__file__).parents[1] / "docs/images"
WIDTH, HEIGHT = 840, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 280, 40, 50
COLORS: Final = (
    *("#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#a855f7", "#06b6d4", "#ec4899", "#84cc16", "#f97316"),
    *("#14b8a6", "#8b5cf6"),
)
INK: Final = "#808080"
"""Grey, which has enough contrast with white and with black."""

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart: its label, and the members that lead to its figure in a result, the stage first."""

    label: str
    path: Sequence[str]

    def points(self, results: Sequence[Result]) -> list[tuple[float, float]]:
        """Return the spans of the stage and the figure, of results that have it."""
        stages = [result[self.path[0]] for result in results if self.path[0] in result]
        return sorted((float(stage["spans"]), value) for stage in stages if (value := self._figure(stage)) is not None)

    def _figure(self, stage: Any) -> float | None:
        for name in self.path[1:]:
            stage = stage.get(name, {})
        return None if stage == {} else float(stage)


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture: figures with the same unit."""

    name: str
    title: str
    unit: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where the spans and figures of a chart are in its picture."""

    spans_min: float
    spans_max: float
    top: float

    @classmethod
    def of(cls, points: Sequence[tuple[float, float]]) -> _Scale:
        spans = [count for count, _ in points]
        first, last = math.floor(math.log10(min(spans))), math.ceil(math.log10(max(spans)))
        return cls(10.0**first, 10.0 ** max(last, first + 1), _rounded_up(max(value for _, value in points)))

    def x(self, spans: float) -> float:
        share = math.log10(spans / self.spans_min) / math.log10(self.spans_max / self.spans_min)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM), 1)


def _over_http(query: str) -> Line:
    return Line(query, ("query", query, "http_p50_ms"))


def _of_peer(peer: str, what: str, name: str, *path: str) -> Line:
    return Line(f"{PEERS[peer].title}: {what}", (stage_of(name), "peers", peer, *path))


STAGES: Final = {
    "until merged": "merged_us",
    "decoders": "decoders_us",
    "insert": "insert_us",
    "merges": "merge_us",
    "rest of the worker": "other_us",
}
CHARTS: Final = (
    *(
        Chart(
            f"cpu-{name}",
            f"Processor time until merged, {meaning}",
            "µs per span",
            [
                *(Line(stage, (f"ingest_{name}", "worker", figure)) for stage, figure in STAGES.items()),
                *(_of_peer(peer, "OTLP/HTTP", name, "merged_us") for peer in PEERS),
            ],
        )
        for name, meaning in (("plain", "plain spans"), ("llm", "LLM spans"))
    ),
    Chart(
        "rate",
        "Sent → stored",
        "spans/s",
        [
            Line("plain", ("ingest_plain", "worker", "spans_per_s")),
            Line("LLM", ("ingest_llm", "worker", "spans_per_s")),
            *(_of_peer(peer, "plain", "plain", "spans_per_s") for peer in PEERS),
        ],
    ),
    Chart(
        "disk",
        "On disk, merged, with indexes",
        "bytes per span",
        [
            Line("plain", ("ingest_plain", "worker", "settled", "bytes_per_span")),
            Line("LLM", ("ingest_llm", "worker", "settled", "bytes_per_span")),
            *(_of_peer(peer, "plain", "plain", "bytes_per_span") for peer in PEERS),
        ],
    ),
    Chart(
        "memory",
        "Peak of memory",
        "MiB",
        [
            Line("worker, plain", ("ingest_plain", "worker", "mib")),
            Line("worker, LLM", ("ingest_llm", "worker", "mib")),
            Line("embedded stack, plain", ("stack_plain", "kafka", "peak_mib")),
            *(_of_peer(peer, "plain", "plain", "peak_mib") for peer in PEERS),
        ],
    ),
    Chart(
        "queries",
        "Queries over HTTP, p50",
        "ms",
        [
            *map(_over_http, MIXED),
            *(
                _of_peer(peer, query, "plain", "queries", query, "p50_ms")
                for peer in PEERS
                for query in (TRACE, OPERATION)
            ),
        ],
    ),
    Chart(
        "pages",
        "A page of 50 in sequence, p50",
        "ms",
        [
            Line("page 1", ("query", "depth", "first_p50_ms")),
            Line("page 10,000 or the last", ("query", "depth", "deep_p50_ms")),
        ],
    ),
)


def svg(chart: Chart, results: Sequence[Result]) -> str | None:
    """Return a chart of results at different numbers of spans; ``None`` if none of them has its figures."""
    drawn = [(line.label, line.points(results)) for line in chart.lines]
    drawn = [(label, points) for label, points in drawn if points]
    if not drawn:
        return None
    scale = _Scale.of([point for _, points in drawn for point in points])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">',
        f"<title>{escape(chart.title)}, {escape(chart.unit)}</title>",
        _text(LEFT, 20, f"{chart.title}, {chart.unit}", size=15),
        *_grid(scale),
    ]
    for number, (label, points) in enumerate(drawn):
        parts += _line(points, scale, COLORS[number % len(COLORS)])
        y = TOP + 14 + 20 * number
        parts.append(f'<circle cx="{WIDTH - RIGHT + 20}" cy="{y - 4}" r="4" fill="{COLORS[number % len(COLORS)]}"/>')
        parts.append(_text(WIDTH - RIGHT + 32, y, label))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _rounded_up(value: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least ``value``."""
    power = 10.0 ** math.floor(math.log10(value or 1.0))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _grid(scale: _Scale) -> list[str]:
    parts = []
    for number in range(6):
        value = scale.top * number / 5
        y = scale.y(value)
        parts.append(f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="{INK}" stroke-opacity="0.3"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{value:,.10g}", anchor="end"))
    spans = scale.spans_min
    while spans <= scale.spans_max:
        parts.append(_text(scale.x(spans), HEIGHT - BOTTOM + 18, f"{spans:,.0f}", anchor="middle"))
        spans *= 10
    middle = (LEFT + WIDTH - RIGHT) / 2
    return [*parts, _text(middle, HEIGHT - 10, "spans (logarithmic)", anchor="middle")]


def _line(points: Sequence[tuple[float, float]], scale: _Scale, color: str) -> list[str]:
    places = [(scale.x(spans), scale.y(value)) for spans, value in points]
    path = " ".join(f"{x},{y}" for x, y in places)
    dots = [f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>' for x, y in places]
    return [f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>', *dots]


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def main(files: Sequence[str]) -> None:
    """Write the charts of these results."""
    results = [json.loads(Path(name).read_text()) for name in files]
    IMAGES.mkdir(parents=True, exist_ok=True)
    for chart in CHARTS:
        if drawing := svg(chart, results):
            path = IMAGES / f"performance-{chart.name}.svg"
            path.write_text(drawing)
            print(path)


if __name__ == "__main__":
    parser = parser_of("plot", __doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="results of python -m bench")
    main(parser.parse_args().files)
