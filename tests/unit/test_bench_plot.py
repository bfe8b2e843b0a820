"""Charts of the performance table are pictures of what was measured, at the scale of each stage."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from bench.plot import CHARTS, svg

SVG = "{http://www.w3.org/2000/svg}"
CHART = {chart.name: chart for chart in CHARTS}


def result(spans: int, merged_us: float) -> dict[str, Any]:
    return {
        "spans": 10 * spans,
        "ingest_plain": {"spans": spans, "worker": {"merged_us": merged_us, "insert_us": 30.0}},
    }


def drawn(results: list[dict[str, Any]]) -> ElementTree.Element:
    picture = svg(CHART["cpu-plain"], results)
    assert picture is not None
    return ElementTree.fromstring(picture)


def test_each_figure_is_a_line_with_a_point_for_each_scale() -> None:
    picture = drawn([result(1_000_000, 150.0), result(100_000, 100.0), {"spans": 5}])

    lines = [line.attrib["points"].split() for line in picture.iter(f"{SVG}polyline")]
    assert [len(points) for points in lines] == [2, 2]
    (first_x, first_y), (last_x, last_y) = (map(float, point.split(",")) for point in lines[0])
    assert first_x < last_x
    assert first_y > last_y  # the axis points up


def test_axes_and_lines_have_labels() -> None:
    texts = [text.text for text in drawn([result(100_000, 100.0), result(10_000_000, 150.0)]).iter(f"{SVG}text")]

    assert "Processor time until merged, plain spans, µs per span" in texts
    assert "spans (logarithmic)" in texts
    assert {"100,000", "1,000,000", "10,000,000", "0", "200"} <= set(texts)
    assert {"until merged", "insert"} <= set(texts)
    assert not any("Jaeger" in (text or "") for text in texts)  # it was not measured


def test_the_place_of_a_point_is_the_scale_of_its_stage() -> None:
    picture = drawn([result(100_000, 100.0), result(1_000_000, 100.0), result(10_000_000, 100.0)])

    (left, middle, right), *_ = (
        [float(point.split(",")[0]) for point in line.attrib["points"].split()]
        for line in picture.iter(f"{SVG}polyline")
    )
    assert middle == (left + right) / 2


def test_a_chart_without_figures_is_not_drawn() -> None:
    assert all(svg(chart, [{"spans": 100_000}]) is None for chart in CHARTS)
