"""The native part: it is there, and its NumPy counterpart says the same."""

from __future__ import annotations

import os

import colrank_kernels
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

CASES = [
    ([0], 0, True),
    ([0, 3, 3, 7], 7, True),
    ([0, 3, 2, 7], 7, False),
    ([1, 3], 3, False),
    ([0, 3], 4, False),
    ([0, -1, 3], 3, False),
    ([0, 2**31 + 5, 2**40], 2**40, True),
    ([], 0, False),
]


@pytest.fixture(params=["installed", "numpy"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setattr(colrank_kernels, "_cpu", None)


@pytest.mark.parametrize(("offsets", "tokens", "valid"), CASES)
def test_offsets_are_valid(kernels: None, offsets: list[int], tokens: int, valid: bool):
    assert colrank_kernels.offsets_are_valid(np.array(offsets, dtype=np.int64), tokens) is valid


@given(st.lists(st.integers(-(2**62), 2**62), max_size=8), st.integers(-(2**62), 2**62))
def test_native_and_numpy_agree(offsets: list[int], tokens: int):
    array = np.array(offsets, dtype=np.int64)
    native = colrank_kernels._cpu
    said = colrank_kernels.offsets_are_valid(array, tokens)
    try:
        colrank_kernels._cpu = None
        assert colrank_kernels.offsets_are_valid(array, tokens) is said
    finally:
        colrank_kernels._cpu = native


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 3, 8, 33, 128]),
    st.sampled_from([0, 1, 7, 300]),
    st.sampled_from([np.uint16, np.uint32]),
)
@settings(deadline=None)
def test_native_and_numpy_decode_to_the_same_bits(seed: int, bits: int, dim: int, tokens: int, kind: type):
    rng = np.random.default_rng(seed)
    each = 8 // bits
    code = rng.integers(0, 256, (tokens, -(-dim // each))).astype(np.uint8)
    ids = rng.integers(0, 9, tokens).astype(kind)
    scale = rng.random(tokens).astype(np.float32)
    centroids = rng.standard_normal((9, dim)).astype(np.float32)
    table = rng.standard_normal((256, each)).astype(np.float32)
    native = colrank_kernels._cpu
    said = colrank_kernels.decode_linear(code, ids, scale, centroids, table)
    expected = table[code].reshape(tokens, code.shape[1] * each)[:, :dim] * scale[:, None] + centroids[ids]
    assert np.array_equal(said, expected)
    try:
        colrank_kernels._cpu = None
        assert np.array_equal(colrank_kernels.decode_linear(code, ids, scale, centroids, table), expected)
    finally:
        colrank_kernels._cpu = native
    if tokens:
        ids[-1] = 9
        assert colrank_kernels.decode_linear(code, ids, scale, centroids, table) is None


def test_the_kernels_are_compiled_where_they_must_be():
    if os.environ.get("COLRANK_KERNELS") != "required":
        pytest.skip("COLRANK_KERNELS is not `required`")
    assert colrank_kernels.available() == ("cpu",)
