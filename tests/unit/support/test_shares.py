"""The shares of the long tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.shares import files_of_share

FILES = [Path(f"test_{number}.py") for number in range(11)]


def test_every_file_is_in_one_share() -> None:
    shares = [files_of_share(FILES, f"{number}/3") for number in range(3)]

    assert sorted(file for share in shares for file in share) == sorted(FILES)
    assert {len(share) for share in shares} == {3, 4}


@pytest.mark.parametrize("share", ["3/3", "-1/3"])
def test_share_that_does_not_exist_is_refused(share: str) -> None:
    with pytest.raises(ValueError, match="NUMBER/COUNT"):
        files_of_share(FILES, share)
