"""``clearspan reset-offsets`` beside an embedded stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from clearspan import reset_offsets
from clearspan.embedded.layout import Layout, hold
from clearspan.environment import read_settings


@pytest.mark.parametrize("dry_run", [False, True])
def test_embedded_stack_that_runs_is_named(
    dry_run: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path))

    with hold(Layout(tmp_path)):
        assert reset_offsets.run(read_settings(), dry_run=dry_run, as_json=False) == 1

    error = capsys.readouterr().err
    assert f"is for ClickHouse servers only, and an embedded stack runs on {tmp_path}" in error
    assert "CLEARSPAN_CLICKHOUSE__HOST" in error
