"""The embedded defaults on two judged collections reach what was set out; the rest is in bench/quality.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from quality import FLOORS, quality


@pytest.mark.parametrize("collection", ["limit-small", "xquad-es"])
def test_defaults_reach_the_floor(judged: Path, tmp_path: Path, collection: str):
    row = quality(collection, tmp_path)
    assert row["nDCG@10"] >= FLOORS[collection]
    assert row["weighted"] is (collection == "xquad-es")
    assert row["warnings"] == []
