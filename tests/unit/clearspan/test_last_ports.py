"""A stack starts on the ports of its last start, unless the environment names others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clearspan.embedded.layout import Layout
from clearspan.embedded.ports import with_last_ports, write_last_ports
from clearspan.embedded.stack import embedded_settings
from common.settings import Settings


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def started(layout: Layout, **given: Any) -> Settings:
    """The settings of a start with these ports in the environment, which the next one finds."""
    settings = embedded_settings(with_last_ports(Settings(**given), layout))
    write_last_ports(settings, layout)
    return settings


def test_next_start_uses_the_ports_of_the_last_one(layout: Layout) -> None:
    started(layout, api_port=18080, worker_port=18081, kafka_port=19092, otlp_http_port=14318, otlp_grpc_port=14317)

    again = started(layout)

    assert (again.api_port, again.worker_port, again.kafka_port) == (18080, 18081, 19092)
    assert (again.otlp_http_port, again.otlp_grpc_port) == (14318, 14317)


def test_port_of_the_environment_wins_and_is_the_last_one_then(layout: Layout) -> None:
    started(layout, api_port=18080, kafka_port=19092)

    assert started(layout, api_port=28080).api_port == 28080

    again = started(layout)
    assert (again.api_port, again.kafka_port) == (28080, 19092)


def test_free_port_that_was_chosen_is_used_again(layout: Layout) -> None:
    chosen = started(layout, api_port=0).api_port

    assert chosen != 0
    assert started(layout).api_port == chosen


def test_otlp_that_was_turned_off_stays_off(layout: Layout) -> None:
    started(layout, otlp_grpc_port=0)

    assert started(layout).otlp_grpc_port == 0


def test_default_ports_of_otlp_stay_defaults_that_may_be_left_out(layout: Layout) -> None:
    started(layout, api_port=18080)

    assert {"otlp_http_port", "otlp_grpc_port"} & started(layout).model_fields_set == set()


@pytest.mark.parametrize("text", ["", "[]", '"8080"', '{"api_port": "x"}', '{"api_port": 70000}', '{"api_key": 1}'])
def test_file_that_is_not_readable_is_ignored(text: str, layout: Layout) -> None:
    layout.ports.write_text(text)

    assert with_last_ports(Settings(), layout) == Settings()


def test_file_is_part_of_the_data_that_reset_deletes(layout: Layout) -> None:
    started(layout, api_port=18080)

    assert json.loads(layout.ports.read_text())["api_port"] == 18080
    assert layout.ports in layout.kept
