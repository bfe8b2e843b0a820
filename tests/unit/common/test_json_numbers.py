"""Which doubles are integers."""

import pytest

from common.json_numbers import json_number


@pytest.mark.parametrize(
    ("double", "shown"),
    [
        (5.0, "5"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (2.0**63, "9223372036854775808"),
        (2.0**64, "1.8446744073709552e+19"),
        (-(2.0**63), "-9223372036854775808"),
        (-(2.0**63) - 2048, "-9.223372036854778e+18"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_double_is_an_integer_only_within_64_bits(double: float, shown: str) -> None:
    assert repr(json_number(double)) == shown
