"""Codes against their definition: round trip, layout, unit length, the sample and the centroids."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import colrank_kernels
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colrank import centroids
from colrank.centroids import CentroidIndex, centroid_count, require_faiss, train_centroids
from colrank.codec import Codec, StreamSample, train_codec
from colrank.codec.bits import byte_table, pack, row_bytes, unpack
from colrank.codec.codec import even_levels, unit_scale
from colrank.codec.train import codec_error, quantile_levels, random_rotation
from colrank.errors import IndexDamaged, MissingExtra


def unit(rng: np.random.Generator, rows: int, dim: int) -> np.ndarray:
    vectors = rng.standard_normal((rows, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def clustered(rng: np.random.Generator, rows: int, dim: int, noise: float = 0.3) -> np.ndarray:
    means = unit(rng, max(1, rows // 40), dim)
    vectors = means[rng.integers(len(means), size=rows)] + noise * unit(rng, rows, dim)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def trained(vectors: np.ndarray, **options) -> Codec:
    sample = StreamSample(vectors.shape[1], 0)
    sample.add(vectors)
    return train_codec(sample, **options)[0]


def decoded_by_definition(codec: Codec, columns: dict[str, np.ndarray]) -> np.ndarray:
    """docs/format.md, one number at a time, in the model's space and float64."""
    out = np.zeros((len(columns["centroid"]), codec.dim))
    for row in range(len(out)):
        for column in range(codec.dim):
            bit = column * codec.bits
            byte = int(columns["code"][row][bit // 8])
            code = (byte >> (bit % 8)) % 2**codec.bits
            value = float(codec.centroids[columns["centroid"][row]][column])
            if codec.kind == "linear":
                value += float(codec.scales[columns["scale"][row]]) * float(codec.levels[code])
            else:
                value = float(columns["inverse_norm"][row]) * (value + float(codec.levels[code]))
            out[row, column] = value
    return out if codec.rotation is None else out @ codec.rotation.T.astype(np.float64)


@pytest.mark.parametrize("kind", ["linear", "quantile"])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("dim", [1, 3, 16, 33])
def test_decoding_follows_the_written_format(kind, bits, dim):
    vectors = clustered(np.random.default_rng(dim), 300, dim)
    codec = trained(vectors, bits=bits, kind=kind)
    columns = codec.encode(vectors)
    assert columns["code"].shape == (300, -(-dim * bits // 8))
    found = codec.turn_back(codec.decode(columns))
    np.testing.assert_allclose(found, decoded_by_definition(codec, columns), atol=2e-6)
    # A block decodes as its tokens do one by one, to the last bit.
    whole = codec.decode(columns)
    for row in (0, 7, 299):
        alone = codec.decode({name: values[row : row + 1] for name, values in columns.items()})
        assert np.array_equal(alone[0], whole[row])


@pytest.mark.parametrize(("kind", "errors"), [("linear", (0.06, 0.02, 0.002, 1e-4)), ("quantile", None)])
def test_more_bits_err_less_and_decoded_vectors_have_unit_length(kind, errors):
    rng = np.random.default_rng(0)
    vectors = clustered(rng, 6000, 64)
    unseen = clustered(np.random.default_rng(0), 6000, 64)[::7]
    found = []
    for bits in (1, 2, 4, 8):
        codec = trained(vectors, bits=bits, kind=kind)
        found.append(codec_error(codec, unseen)[0])
        lengths = np.linalg.norm(codec.decode(codec.encode(unseen)), axis=1)
        assert np.abs(lengths - 1).max() < (0.1 if bits == 1 else 0.02)
    assert found == sorted(found, reverse=True)
    if errors:
        assert all(one <= most for one, most in zip(found, errors, strict=True))


def test_linear_codes_err_less_than_quantile_codes():
    vectors = clustered(np.random.default_rng(1), 6000, 64)
    for bits in (2, 4, 8):
        linear, quantile = (
            codec_error(trained(vectors, bits=bits, kind=kind), vectors)[0] for kind in ("linear", "quantile")
        )
        assert linear < quantile


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 4, 8]), st.integers(1, 40), st.integers(0, 9))
@settings(deadline=None)
def test_packing_is_undone_by_unpacking(seed, width, columns, rows):
    values = np.random.default_rng(seed).integers(0, 2**width, size=(rows, columns)).astype(np.uint8)
    packed = pack(values, width)
    assert packed.shape == (rows, row_bytes(columns, width))
    assert np.array_equal(unpack(packed, columns, width), values)
    levels = even_levels(width)
    spread = byte_table(levels, width)[packed].reshape(rows, packed.shape[1] * (8 // width))[:, :columns]
    assert np.array_equal(spread, levels[values])


def test_the_packed_layout_is_the_written_one():
    assert pack(np.array([[1, 0, 0, 0, 0, 0, 0, 1, 1]], np.uint8), 1).tolist() == [[0b10000001, 0b1]]
    assert pack(np.array([[1, 2, 3, 0, 3]], np.uint8), 2).tolist() == [[0b00111001, 0b11]]
    assert pack(np.array([[15, 1, 2]], np.uint8), 4).tolist() == [[0x1F, 0x02]]


def test_the_unit_scale_makes_unit_length_and_stays_near_what_fits():
    rng = np.random.default_rng(2)
    near = 0.8 * unit(rng, 50, 24)
    residual = unit(rng, 50, 24) - near
    level = np.where(residual > 0, 0.5, -0.5).astype(np.float32)
    scale = unit_scale(near, residual, level)
    assert np.median(np.abs(np.linalg.norm(near + scale[:, None] * level, axis=1) - 1)) < 1e-5
    # All but nothing is left over, and rounding turned it against the centroid: the sphere is far off.
    near = unit(rng, 1, 24)
    level = -np.sign(near) / 2
    tiny = (1e-4 * level).astype(np.float32)
    assert unit_scale(near, tiny, level)[0] == pytest.approx(2e-4, rel=0.01)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", ["linear", "quantile"])
@pytest.mark.parametrize("rows", [1, 2, 5, 40])
def test_one_token_and_a_few_can_be_coded(bits, kind, rows):
    vectors = unit(np.random.default_rng(3), rows, 7)
    sample = StreamSample(7, 0)
    sample.add(vectors)
    codec, training = train_codec(sample, bits=bits, kind=kind)
    assert training.tokens == rows
    assert training.trained + training.held_out == rows
    assert (training.squared_error is None) == (rows < 32)
    assert len(codec.centroids) == max(1, training.trained // centroids.TOKENS_PER_CENTROID)
    found = codec.turn_back(codec.decode(codec.encode(vectors)))
    assert np.isfinite(found).all()
    if rows == 1:
        assert (found * vectors).sum() > 0.99
    # Tokens that training never saw, opposite ones among them, stay finite and near unit length.
    others = np.concatenate([-vectors, unit(np.random.default_rng(4), 20, 7)])
    assert np.linalg.norm(codec.decode(codec.encode(others)), axis=1).max() < 1.6


def test_heavily_repeated_text_gives_as_many_centroids_as_there_are_vectors():
    three = unit(np.random.default_rng(5), 3, 12)
    vectors = np.tile(three, (2000, 1))
    codec = trained(vectors, bits=2)
    assert len(codec.centroids) == 3
    found = codec.turn_back(codec.decode(codec.encode(three)))
    assert np.abs(found - three).max() < 1e-3


def test_quantiles_of_more_than_two_to_the_24_values():
    values = np.linspace(-1, 1, 2**24 + 999, dtype=np.float32)
    np.testing.assert_allclose(quantile_levels(values, 2), [-0.75, -0.25, 0.25, 0.75], atol=1e-5)


@pytest.mark.parametrize("dim", [384, 768])
def test_wide_vectors_are_coded(dim):
    vectors = clustered(np.random.default_rng(6), 400, dim)
    for kind in ("linear", "quantile"):
        assert codec_error(trained(vectors, bits=2, kind=kind), vectors)[1] > 0.98


def test_the_rotation_is_orthonormal_and_seeded():
    rotation = random_rotation(33, 7)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(33), atol=1e-6)
    assert np.array_equal(rotation, random_rotation(33, 7))
    assert not np.array_equal(rotation, random_rotation(33, 8))


def test_the_same_sample_and_seed_give_the_same_codec():
    vectors = clustered(np.random.default_rng(8), 5000, 16)
    one, two = (trained(vectors, bits=2, seed=3) for _ in range(2))
    for name in ("centroids", "rotation", "levels", "scales"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


def test_the_error_is_measured_on_tokens_that_training_did_not_see(monkeypatch):
    seen = []
    monkeypatch.setattr("colrank.codec.train.train_centroids", lambda s, c, seed: seen.append(s) or s[:c])
    tested = []
    monkeypatch.setattr("colrank.codec.train.codec_error", lambda codec, v: tested.append(v) or (0.0, 1.0))
    vectors = unit(np.random.default_rng(9), 3000, 8).astype(np.float16)
    sample = StreamSample(8, 0)
    sample.add(vectors)
    _, training = train_codec(sample, bits=8, kind="quantile")
    together = np.concatenate([seen[0], tested[0]])
    assert training.held_out == len(tested[0]) == 3000 // 32
    assert len(np.unique(together, axis=0)) == 3000


def test_what_an_earlier_codec_decoded_to_trains_and_is_not_tested_on(monkeypatch):
    tested = []
    monkeypatch.setattr("colrank.codec.train.codec_error", lambda codec, v: tested.append(v) or (0.5, 0.9))
    vectors = unit(np.random.default_rng(15), 3200, 8).astype(np.float16)
    trainings = []
    for originals in (3200, 1200, 0):
        sample = StreamSample(8, 0)
        sample.add(vectors[originals:], original=False)
        sample.add(vectors[:originals])
        training = train_codec(sample, bits=2, kind="quantile")[1]
        trainings.append(training)
        if originals:
            rows = {row.tobytes() for row in vectors[:originals]}
            assert training.held_out == len(tested[-1]) > 0
            assert all(row.astype(np.float16).tobytes() in rows for row in tested[-1])
            unseen = {row.tobytes() for row in sample.split()[1]}
            assert all(row.tobytes() in unseen for row in tested[-1])
    assert len(tested) == 2
    assert trainings[0].held_out == 100
    assert 20 < trainings[1].held_out < 60  # 1200 of 3200 of the hundred
    assert (trainings[2].held_out, trainings[2].squared_error, trainings[2].cosine) == (0, None, None)
    assert [training.trained for training in trainings] == [3100] * 3


# The sample


def test_the_sample_does_not_depend_on_how_the_stream_is_cut():
    vectors = np.arange(60_000, dtype=np.float32)[:, None] / 60_000
    whole, pieces = StreamSample(1, 5), StreamSample(1, 5)
    whole.add(vectors)
    for begin in range(0, 60_000, 777):
        pieces.add(vectors[begin : begin + 777])
    for one, two in zip(whole.split(), pieces.split(), strict=True):
        assert np.array_equal(one, two)


def test_the_sample_is_even_and_as_large_as_it_says(monkeypatch):
    monkeypatch.setattr("colrank.codec.sample.SAMPLE_FACTOR", 8)
    vectors = np.arange(200_000, dtype=np.float32)[:, None] / 200_000
    sample = StreamSample(1, 1)
    for begin in range(0, 200_000, 5000):
        sample.add(vectors[begin : begin + 5000])
    train, test = sample.split()
    wanted = StreamSample.size(200_000)
    assert wanted == int(8 * np.sqrt(200_000) + 1024)
    assert abs(len(train) + len(test) - wanted) < 5 * np.sqrt(wanted)
    # Early and late vectors are equally likely to be in it: a mean of 1/2 within five standard errors.
    assert abs(train.mean() - 0.5) < 5 * 0.29 / np.sqrt(wanted)


def test_a_sample_knows_its_originals_however_often_it_was_thinned(monkeypatch):
    monkeypatch.setattr("colrank.codec.sample.SAMPLE_FACTOR", 16)
    vectors = np.arange(1, 60_001, dtype=np.float32)[:, None] / 60_000
    sample = StreamSample(1, 3)
    for begin in range(0, 60_000, 2000):
        original = begin % 4000 == 0
        sample.add(vectors[begin : begin + 2000] * (1 if original else -1), original=original)
    train, test = sample.split()
    assert len(train) + len(test) < 8000
    wanted = test[test[:, 0] > 0]
    assert 0 < len(wanted) < len(test)
    assert np.array_equal(sample.unseen_originals(), wanted)


def test_the_sample_is_bounded(monkeypatch):
    monkeypatch.setattr("colrank.codec.sample.SAMPLE_MOST", 1000)
    sample = StreamSample(2, 0)
    for _ in range(50):
        sample.add(np.ones((2000, 2), dtype=np.float32))
        assert sample._kept <= 1.25 * 2024 + 4096 + 2000
    assert 700 < sum(map(len, sample.split())) < 1300


# Centroids


@pytest.mark.parametrize(
    ("tokens", "sampled", "count"),
    [
        (1, 1, 1),
        (50, 50, 1),
        (90, 90, 3),
        (50_000, 50_000, 1666),
        (1_871_104, 680_000, 16384),
        (10**9, 2**22, 139_810),
    ],
)
def test_the_number_of_centroids_follows_the_tokens_and_the_sample(tokens, sampled, count):
    assert centroid_count(tokens, sampled) == count


@pytest.fixture
def by_faiss(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where there are no native kernels."""
    monkeypatch.setattr("colrank.centroids.native_is_there", lambda: False)


@pytest.mark.parametrize(("hnsw_from", "least"), [(601, 1.0), (600, 0.95)])
def test_assigned_centroids_are_the_nearest(by_faiss: None, hnsw_from: int, least: float):
    rng = np.random.default_rng(10)
    table, vectors = unit(rng, 600, 16), unit(rng, 200, 16)
    distances = ((vectors[:, None].astype(np.float64) - table[None]) ** 2).sum(axis=2)
    found = CentroidIndex(table, hnsw_from).assign(vectors)
    assert (found == distances.argmin(axis=1)).mean() >= least  # a graph may miss some


def test_the_graph_is_made_by_one_thread_and_their_number_is_as_before(by_faiss: None, monkeypatch):
    faiss = require_faiss()
    threads = []

    class Watched(faiss.IndexHNSWFlat):
        def add(self, vectors: np.ndarray) -> None:
            threads.append(faiss.omp_get_max_threads())
            super().add(vectors)

    monkeypatch.setattr(faiss, "IndexHNSWFlat", Watched)
    table = unit(np.random.default_rng(13), 600, 16)
    before = faiss.omp_get_max_threads()
    graphs = []
    try:
        for count in (1, 4):
            faiss.omp_set_num_threads(count)
            graphs.append(faiss.serialize_index(CentroidIndex(table, 1)._index()))
            assert faiss.omp_get_max_threads() == count
    finally:
        faiss.omp_set_num_threads(before)
    assert threads == [1, 1]
    assert np.array_equal(graphs[0], graphs[1])


def test_threads_that_come_at_once_make_one_index(by_faiss: None, monkeypatch):
    made, make = [], centroids._graph

    def slow(table: np.ndarray):
        made.append(table)
        time.sleep(0.05)
        return make(table)

    monkeypatch.setattr("colrank.centroids._graph", slow)
    table = unit(np.random.default_rng(14), 50, 8)
    index = CentroidIndex(table, 1)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(index.assign, [table] * 4))
    assert len(made) == 1
    assert all(np.array_equal(ids, np.arange(50)) for ids in found)


@pytest.mark.parametrize("native", [True, False])
def test_centroids_lie_where_the_vectors_do(native: bool, request: pytest.FixtureRequest):
    if not native:
        request.getfixturevalue("by_faiss")
    rng = np.random.default_rng(11)
    means = unit(rng, 20, 8)
    vectors = (np.repeat(means, 300, axis=0) + 0.01 * rng.standard_normal((6000, 8))).astype(np.float32)
    found = train_centroids(vectors, 200, seed=1)
    assert np.linalg.norm(vectors - found[CentroidIndex(found).assign(vectors)], axis=1).max() < 0.1
    assert np.array_equal(found, found.astype(np.float16).astype(np.float32))


def test_a_damaged_centroid_id_is_an_error_not_a_wild_read():
    vectors = unit(np.random.default_rng(12), 40, 8)
    codec = trained(vectors, bits=2)
    columns = codec.encode(vectors)
    columns["centroid"] = np.full(40, 9, dtype=np.uint16)
    with pytest.raises(IndexDamaged, match="centroid 9 of 1"):
        codec.decode(columns)


def test_a_missing_faiss_names_the_extra_where_it_is_needed(monkeypatch):
    assert centroids.can_cluster()

    def absent(name: str):
        raise ImportError(name)

    monkeypatch.setattr(centroids.importlib, "import_module", absent)
    with pytest.raises(MissingExtra, match=r"colrank\[cpu\]"):
        require_faiss()
    assert centroids.can_cluster() == colrank_kernels.native_is_there()
    monkeypatch.setattr(centroids, "native_is_there", lambda: False)
    assert not centroids.can_cluster()
