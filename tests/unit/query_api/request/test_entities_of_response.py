"""Which ids of a response the audit log takes for what was changed."""

from __future__ import annotations

from uuid import uuid4

import orjson
import pytest

from query_api.http.auditing import entities_of_response


@pytest.mark.parametrize("name", ["meta", "data", "tags", "flags", "attributes", "references", "links"])
def test_ids_that_a_client_sent_are_no_entities(name: str) -> None:
    sent = {"anything": {"id": str(uuid4()), "slug": "production"}}
    made = {"id": str(uuid4()), "slug": "made"}

    found = entities_of_response(orjson.dumps({"count": 1, "trace": {name: sent}, "variant": {**made, name: sent}}))

    assert found == [made]
