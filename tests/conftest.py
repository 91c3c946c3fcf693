"""Fixtures of all tests, and the rule for those that need the judged collections."""

from __future__ import annotations

import os
from pathlib import Path

import colrank_kernels
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # no test may reach a hub
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

_WITHOUT_DATA: list[str] = []
SAMPLE = Path(__file__).parent.parent / "docs" / "sample"


@pytest.fixture(scope="session")
def sample() -> Path:
    """Folder of the bilingual corpus that the repository ships."""
    return SAMPLE


@pytest.fixture
def judged(request: pytest.FixtureRequest) -> Path:
    """Folder of the judged collections. In CI a missing folder is a failure, elsewhere a counted skip."""
    named = os.environ.get("COLRANK_DATA")
    if named and Path(named).is_dir():
        return Path(named)
    if os.environ.get("CI") == "true":
        pytest.fail("COLRANK_DATA names no folder of judged collections, and CI must run these tests.")
    _WITHOUT_DATA.append(request.node.nodeid)
    pytest.skip("COLRANK_DATA is not set")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _WITHOUT_DATA:
        terminalreporter.write_line(
            f"{len(_WITHOUT_DATA)} tests were skipped because COLRANK_DATA is not set.", yellow=True
        )


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prefilter looks through the postings, however few tokens there are."""
    monkeypatch.setattr("colrank.prefilter.SCAN_CENTROIDS_BELOW", 0)


@pytest.fixture(params=["centroids", "lists", "torch"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way from a query to its candidates and scores."""
    if request.param == "torch":
        monkeypatch.setattr("colrank.shards.TokenVectors.native", property(lambda tokens: None))
    elif not colrank_kernels.native_is_there():
        pytest.skip("this installation has no native kernels")
    if request.param == "lists":
        request.getfixturevalue("lists")
    return str(request.param)
