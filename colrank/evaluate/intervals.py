"""How sure a mean over queries is: bootstrap intervals, and a randomisation test of paired values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colrank.errors import InputError

ROUNDS = 10_000
LEVEL = 0.95

_DRAWN_AT_ONCE = 1 << 20
_TOLERANCE = 1e-9

Values = Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Paired:
    """How values compare with a baseline's on the same queries.

    Attributes:
        baseline: the baseline's mean.
        difference: mean of the values less that; positive is better than the baseline.
        low, high: bootstrap interval of the difference.
        p: how often signs flipped at random give a difference as large, to either side.
    """

    baseline: float
    difference: float
    low: float
    high: float
    p: float


def bootstrap_interval(
    values: Values, seed: int = 0, rounds: int = ROUNDS, level: float = LEVEL
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean over queries (Efron 1979).

    Args:
        values: one for each query, at least one.
        seed: the same seed gives the same interval.
        rounds: how often as many queries are drawn with replacement.
        level: how much of the means the interval holds.

    Raises:
        InputError: there is no value, or rounds or level make no sense.
    """
    sample = _checked(values)
    if rounds < 1 or not 0 < level < 1:
        raise InputError(
            f"rounds is {rounds} and level {level}; give at least 1 round, and a level inside 0..1."
        )
    size = len(sample)
    means = _in_pieces(
        lambda random, count: sample[random.integers(size, size=(count, size))].mean(axis=1),
        size,
        rounds,
        seed,
    )
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def paired(values: Values, baseline: Values, seed: int = 0, rounds: int = ROUNDS) -> Paired:
    """Compare two systems on the same queries: difference of means, its interval, and a p-value.

    The p-value is of the two-sided randomisation test (Fisher's; for retrieval Smucker et al. 2007): the
    share of `rounds` random sign flips, and the signs as they are, whose mean difference is as large.

    Args:
        values, baseline: one for each query, in the same order.

    Raises:
        InputError: there is no value, or the two differ in length.
    """
    ours, theirs = _checked(values), _checked(baseline)
    if len(ours) != len(theirs):
        raise InputError(f"There are {len(ours)} values and {len(theirs)} of the baseline; give one a query.")
    differences = ours - theirs
    low, high = bootstrap_interval(differences, seed, rounds)
    moved = differences[differences != 0]
    size = max(1, len(moved))
    sums = _in_pieces(
        lambda random, count: np.abs(random.choice((-1.0, 1.0), size=(count, len(moved))) @ moved),
        size,
        rounds,
        seed,
    )
    # Sums of the same numbers in another order differ in their last bits.
    as_large = sums >= abs(float(moved.sum())) - _TOLERANCE
    return Paired(
        baseline=float(theirs.mean()),
        difference=float(differences.mean()),
        low=low,
        high=high,
        p=float((1 + int(as_large.sum())) / (1 + rounds)),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for being tested together, in the given order (Holm 1979).

    Each holds the chance of even one false alarm among them all below itself.
    """
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    out = [1.0] * len(p_values)
    largest = 0.0
    for done, at in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - done) * p_values[at]))
        out[at] = largest
    return out


def _checked(values: Values) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise InputError("There is no value to take the mean of; give one for each query.")
    return array


def _in_pieces(
    draw: Callable[[np.random.Generator, int], NDArray[np.float64]], size: int, rounds: int, seed: int
) -> NDArray[np.float64]:
    """Results of `rounds` draws of `size` numbers, some rounds at a time: memory stays bounded."""
    random = np.random.default_rng(seed)
    at_once = max(1, _DRAWN_AT_ONCE // size)
    return np.concatenate([draw(random, min(at_once, rounds - done)) for done in range(0, rounds, at_once)])
