"""Pages of a running stack while a producer sends spans again: everything is returned exactly once (contract §3.3)."""

from __future__ import annotations

from itertools import product

import pytest

from tests.support.sent_again import ROUTES, Corpus, sending_again
from tests.support.stack import RunningStack

pytestmark = pytest.mark.long

ORDERS = ("ascending", "descending")
PAGES = 8
"""Pages of a scan; every other scan has half as many."""


def test_all_pages_together_return_everything_once(stack: RunningStack) -> None:
    corpus = Corpus.of(traces_count=40, spans_per_trace=10)
    corpus.store(stack)

    with sending_again(stack, corpus, per_s=50) as sent:
        wrong = {
            f"{route}, {order}, {limit} a page": found
            for route, order, pages in product(ROUTES, ORDERS, (PAGES, PAGES // 2))
            if (
                found := corpus.lost_and_repeated(
                    stack,
                    route,
                    is_filtered=pages == PAGES,
                    order=order,
                    limit=(limit := len(corpus.expected(route)) // pages + 1),
                )
            )
        }

    assert sent() > len(ROUTES) * len(ORDERS) * 2
    assert wrong == {}
