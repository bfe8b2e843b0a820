"""A layout is made once per record; a cut takes time linear in its own size, not in that of the record."""

from __future__ import annotations

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.codec import otlp_json, otlp_protobuf
from common.codec.layout import Framing, Layout, ScopePart, SpanPart, SpanParts, ascending, pieces
from tests.support.otlp_json import request_json

FRAMING = Framing(
    scope=lambda wrapper, spans: b"(" + wrapper + b":" + b" ".join(spans) + b")",
    resource=lambda wrapper, scopes: b"[" + wrapper + b":" + b"".join(scopes) + b"]",
    request=b"".join,
)


def span_parts(*parts):
    spans = SpanParts()
    for part in parts:
        spans.add(*part)
    return spans


# Two resources whose wrappers and scopes are equal, byte for byte.
LAYOUT = Layout(
    b"abcd",
    FRAMING,
    resources=[b"R", b"R"],
    scopes=[ScopePart(0, b"S"), ScopePart(0, b"S"), ScopePart(1, b"S")],
    spans=span_parts((0, 0, 0, 1), (0, 1, 1, 2), (1, 2, 2, 3), (2, 3, 3, 4)),
)


@pytest.mark.parametrize(
    ("span_indexes", "value"),
    [
        ([0, 1, 2, 3], b"[R:(S:a b)(S:c)][R:(S:d)]"),
        ([3, 1, 1], b"[R:(S:b)][R:(S:d)]"),
        ([1, 2], b"[R:(S:b)(S:c)]"),
        ([4], b""),
        ([], b""),
    ],
)
def test_neighbors_share_their_wrapper_and_equal_wrappers_stay_apart(span_indexes, value):
    assert LAYOUT.cut(span_indexes) == value


def test_neighbors_with_only_a_gap_between_them_are_one_piece():
    spans = span_parts((0, 0, 0, 1), (0, 2, 2, 3), (0, 5, 5, 6))

    assert list(pieces(b"a,b;;c", spans, is_gap=b",".__eq__)) == [b"a,b", b"c"]
    assert list(pieces(b"a,b;;c", [], is_gap=bool)) == []


def test_parts_of_spans_are_a_sequence():
    spans = span_parts((0, 0, 0, 1), (0, 1, 1, 2), (0, 2, 2, 3))

    assert list(spans) == [SpanPart(0, 0, 0, 1), SpanPart(0, 1, 1, 2), SpanPart(0, 2, 2, 3)]
    assert (len(spans), spans[-1]) == (3, SpanPart(0, 2, 2, 3))


@pytest.mark.parametrize(("given", "found"), [([3, 1, 1], [1, 3]), (range(1, 4), range(1, 4)), ([], [])])
def test_only_unordered_indexes_are_sorted(given, found):
    assert ascending(given) == found
    assert found != given or ascending(given) is given


def test_each_group_is_the_spans_of_one_scope():
    assert [(part.resource, list(spans)) for part, spans in LAYOUT.groups()] == [
        (0, [b"a", b"b"]),
        (0, [b"c"]),
        (1, [b"d"]),
    ]


class CountedParts(list):
    """A list that counts reads of its elements."""

    def __init__(self, parts):
        super().__init__(parts)
        self.reads_count = 0

    def __getitem__(self, index):
        self.reads_count += 1
        return super().__getitem__(index)

    def __iter__(self):
        for part in super().__iter__():
            self.reads_count += 1
            yield part


@pytest.mark.parametrize("codec", [otlp_protobuf, otlp_json])
def test_cutting_every_span_alone_reads_each_once(codec):
    layout = codec.lay_out(request_of_many_scopes(codec, 500))
    counted = layout._replace(scopes=CountedParts(layout.scopes), spans=CountedParts(layout.spans))

    cuts = [counted.cut([index]) for index in range(500)]

    assert len(set(cuts)) == 500
    assert counted.spans.reads_count == 500
    assert counted.scopes.reads_count <= 2 * 500


def request_of_many_scopes(codec, count):
    """A request with one resource and a scope for each span."""
    request = ExportTraceServiceRequest()
    scopes = request.resource_spans.add().scope_spans
    for number in range(count):
        scopes.add().spans.add(name=str(number))
    return request_json(request) if codec is otlp_json else request.SerializeToString()
