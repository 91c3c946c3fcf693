from typing import Any

import numpy as np
from numpy.typing import NDArray

def variants() -> list[str]: ...
def variant() -> str: ...
def use_variant(name: str) -> bool: ...
def threads() -> int: ...
def set_threads(count: int) -> None: ...
def largest(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]: ...
def offsets_are_valid(offsets: NDArray[np.int64], tokens: int) -> bool: ...
def decode_linear(
    code: NDArray[np.uint8],
    ids: NDArray[np.uint16] | NDArray[np.uint32],
    scale: NDArray[np.float32],
    centroids: NDArray[np.float32],
    table: NDArray[np.float32],
    out: NDArray[np.float32],
) -> bool: ...

class Tokens:
    """Stored tokens: columns in memory or mapped, block by block, never copied."""

    def __init__(
        self,
        dim: int,
        bits: int,
        kind: str,
        centroids: NDArray[np.float32] | None,
        table: NDArray[np.float32] | None,
        scales: NDArray[np.float32] | None,
        first: int = 0,
    ) -> None: ...
    def add(self, ids: NDArray[Any] | None, vectors: NDArray[Any], extra: NDArray[Any] | None) -> None: ...
    def __len__(self) -> int: ...

class Lists:
    """The postings of segments, in the order in which their passages are counted."""

    def __init__(self, centroids: int) -> None: ...
    def add(self, offsets: NDArray[np.int64], numbers: NDArray[Any], passages: int) -> None: ...

class Query:
    """A query laid out for some tokens, with its memory: for one thread at a time.

    What returns a bool returns False where an id or an offset leads outside of the tokens.
    """

    def __init__(self) -> None: ...
    def set(self, tokens: Tokens, vectors: NDArray[np.float64], weights: NDArray[np.float32]) -> None: ...
    def compare(self, prune: float) -> None: ...
    def maxsim(
        self,
        offsets: NDArray[np.int64],
        rows: NDArray[np.int64] | None,
        scores: NDArray[np.float32],
        slack: NDArray[np.float32],
    ) -> bool: ...
    def closer_slack(
        self, offsets: NDArray[np.int64], rows: NDArray[np.int64] | None, slack: NDArray[np.float32]
    ) -> bool: ...
    def exact(
        self,
        offsets: NDArray[np.int64],
        rows: NDArray[np.int64] | None,
        rounding: float,
        scores: NDArray[np.float32],
    ) -> bool: ...
    def centroid_scores(
        self,
        offsets: NDArray[np.int64],
        rows: NDArray[np.int64] | None,
        prune: float,
        scores: NDArray[np.float32],
    ) -> bool: ...
    def probe(self, out: NDArray[np.int64]) -> None: ...
    def listed(
        self,
        lists: Lists,
        probed: NDArray[np.int64],
        allowed: NDArray[np.uint8] | None,
        count: int,
    ) -> NDArray[np.int64] | None: ...

class Grouped:
    """Centroids in groups, each with a middle; rows are compared with the members of the nearest groups."""

    def __init__(
        self, centroids: NDArray[np.float32], middles: NDArray[np.float32], group: NDArray[np.int32]
    ) -> None: ...
    def assign(
        self,
        rows: NDArray[np.float32],
        looked: int,
        ids: NDArray[np.int32],
        best: NDArray[np.float32],
    ) -> None: ...

def cluster_sums(
    rows: NDArray[np.float32],
    ids: NDArray[np.int32],
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> bool: ...
