"""Search over given vectors: right hits, right order, right counts."""

from __future__ import annotations

import threading
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_codec import clustered

from colrank import ColRank, prefilter
from colrank.config import SearchConfig
from colrank.errors import InputError
from colrank.index import Contents, Knobs, Manifest
from colrank.prefilter import NO_PRUNING, Plan, candidates, default_plan, plan
from colrank.score import QueryVectors


def unit(array) -> np.ndarray:
    array = np.asarray(array, dtype=np.float32)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


def random_index(path: Path, documents: int = 60, dim: int = 16, seed: int = 0) -> tuple[ColRank, dict]:
    rng = np.random.default_rng(seed)
    held = {
        f"d{row:03d}": unit(rng.standard_normal((int(rng.integers(1, 9)), dim))) for row in range(documents)
    }
    index = ColRank.create(path, model=None)
    index.add_embeddings(list(held), list(held.values()), texts=[f"text {name}" for name in held])
    return index, held


def ranked(held: dict, query: np.ndarray) -> list[tuple[str, float]]:
    """Brute force over the stored precision, ties by id."""
    scores = {
        name: float((query.astype(np.float64) @ v.astype(np.float16).astype(np.float64).T).max(axis=1).sum())
        for name, v in held.items()
    }
    return sorted(scores.items(), key=lambda item: (-np.float32(item[1]), item[0]))


def test_hits_equal_brute_force(tmp_path: Path):
    index, held = random_index(tmp_path / "i")
    rng = np.random.default_rng(1)
    queries = [unit(rng.standard_normal((n, 16))) for n in (1, 5, 32)]
    for query, hits in zip(queries, index.search(queries, 10), strict=True):
        expected = ranked(held, query)[:10]
        assert [hit.document for hit in hits] == [name for name, _ in expected]
        np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in expected], rtol=1e-6)
        assert hits[0].scores == {"maxsim": hits[0].score}
        assert hits[0].text == f"text {hits[0].document}"
        assert hits[0].id == f"{hits[0].document}#0"
        assert list(hits.timings) == ["encode", "scan", "select"]


def test_a_query_alone_and_in_a_batch_scores_the_same_bits(tmp_path: Path):
    index, _ = random_index(tmp_path / "i")
    rng = np.random.default_rng(2)
    queries = [unit(rng.standard_normal((n, 16))) for n in (3, 17, 1, 40, 8)]
    together = index.search(queries, 60)
    for query, hits in zip(queries, together, strict=True):
        assert [(h.id, h.score) for h in index.search(query, 60)] == [(h.id, h.score) for h in hits]


@given(st.integers(1, 400))
@settings(deadline=None, max_examples=12)
def test_exactly_min_of_k_and_documents(tmp_path_factory, k):
    index, _ = random_index(tmp_path_factory.mktemp("k") / "i", documents=37)
    assert len(index.search(unit(np.ones((2, 16))), k)) == min(k, 37)
    assert len(index.search(unit(np.ones((2, 16))), k, by="document")) == min(k, 37)


def test_the_order_of_one_k_is_the_head_of_a_larger_k(tmp_path: Path):
    index, _ = random_index(tmp_path / "i")
    query = unit(np.random.default_rng(3).standard_normal((6, 16)))
    whole = [hit.id for hit in index.search(query, 60)]
    for k in (1, 2, 7, 59):
        assert [hit.id for hit in index.search(query, k)] == whole[:k]


def test_equal_scores_order_by_id_whatever_the_order_of_adding(tmp_path: Path):
    vectors = unit(np.random.default_rng(4).standard_normal((5, 16)))
    names = ["b", "a", "ä", "B", "10", "9", "a b"]
    for number, order in enumerate((names, names[::-1], sorted(names))):
        index = ColRank.create(tmp_path / str(number), model=None)
        index.add_embeddings(order, [vectors] * len(order))
        for by in ("passage", "document"):
            assert [hit.document for hit in index.search(vectors, 99, by=by)] == sorted(names)
            assert [hit.document for hit in index.search(vectors, 3, by=by)] == sorted(names)[:3]
            assert len({hit.score for hit in index.search(vectors, 99, by=by)}) == 1


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", True])
def test_k_must_be_a_positive_whole_number(tmp_path: Path, k):
    index, _ = random_index(tmp_path / "i", documents=2)
    with pytest.raises(InputError, match=r"k is .*at least 1"):
        index.search(unit(np.ones((1, 16))), k)


def test_vectors_of_a_wrong_shape_are_refused(tmp_path: Path):
    index, _ = random_index(tmp_path / "i", documents=2)
    with pytest.raises(InputError, match=r"query 1 have 15 dimensions and the index has 16"):
        index.search(np.ones((3, 15)))
    with pytest.raises(InputError, match=r"shape \(16,\)"):
        index.search(np.ones(16))
    with pytest.raises(InputError, match="at least one token"):
        index.search(np.ones((0, 16)))
    with pytest.raises(InputError, match="query 2 hold NaN or Inf"):
        index.search([np.ones((1, 16)), np.full((1, 16), np.inf)])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_inf_are_refused_naming_the_document_and_nothing_is_written(tmp_path: Path, bad):
    index, _ = random_index(tmp_path / "i", documents=3)
    wrong = np.ones((4, 16))
    wrong[2, 5] = bad
    with pytest.raises(InputError, match="document 'broken' hold NaN or Inf"):
        index.add_embeddings(["fine", "broken"], [np.ones((1, 16)), wrong])
    assert len(index) == len(ColRank.open(tmp_path / "i")) == 3


def test_arrays_of_a_wrong_dim_zero_vectors_and_uneven_lists_are_refused(tmp_path: Path):
    index, _ = random_index(tmp_path / "i", documents=3)
    with pytest.raises(InputError, match="document 'x' have 8 dimensions and the index has 16"):
        index.add_embeddings(["x"], [np.ones((1, 8))])
    with pytest.raises(InputError, match="2 ids were given and 1 arrays"):
        index.add_embeddings(["x", "y"], [np.ones((1, 16))])
    with pytest.raises(InputError, match="zero vector"):
        index.add_embeddings(["x"], [np.zeros((1, 16))])
    with pytest.raises(InputError, match="has no vectors"):
        index.add_embeddings(["x"], [np.zeros((0, 16))])
    with pytest.raises(InputError, match="'x' have 4 dimensions and the index has 8"):
        ColRank.create(tmp_path / "new", model=None).add_embeddings(
            ["w", "x"], [np.ones((1, 8)), np.ones((1, 4))]
        )
    assert not (tmp_path / "new").exists()


def test_vectors_are_scaled_to_unit_length(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", model=None)
    index.add_embeddings(["a"], [np.array([[3.0, 4.0]])])
    assert index.search(np.array([[30.0, 40.0]]))[0].score == pytest.approx(1.0, abs=1e-3)


def test_string_ids_are_kept_as_given_and_replace_in_place(tmp_path: Path):
    names = ["007", "id with space", "ñandú/7", "7", "a#0", "a", "日本"]
    index = ColRank.create(tmp_path / "i", model=None)
    index.add_embeddings(names, [np.eye(8)[row : row + 1] for row in range(len(names))])
    for row, name in enumerate(names):
        assert index.search(np.eye(8)[row : row + 1], 1)[0].document == name
    report = index.add_embeddings(["7"], [-np.eye(8)[7:8]])
    assert report.documents == len(names)
    assert index.search(-np.eye(8)[7:8], 1)[0].document == "7"


def test_a_later_duplicate_in_one_call_replaces_and_is_named(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", model=None)
    report = index.add_embeddings(["a", "b", "a"], [np.eye(4)[0:1], np.eye(4)[1:2], np.eye(4)[2:3]])
    assert report.documents == 2
    assert report.warnings == ["1 duplicate ids, the later document replaces the earlier: a"]
    assert index.search(np.eye(4)[2:3], 1)[0].document == "a"


def test_nothing_indexed_yet_is_a_clear_error(tmp_path: Path):
    with pytest.raises(InputError, match="Nothing was indexed"):
        ColRank.create(tmp_path / "i", model=None).search(np.ones((1, 4)))


def test_text_queries_need_a_model(tmp_path: Path):
    index, _ = random_index(tmp_path / "i", documents=2)
    with pytest.raises(InputError, match="search it with vectors"):
        index.search("a text")


def test_an_error_inside_the_engine_is_raised_not_an_empty_list(tmp_path: Path, monkeypatch):
    index, _ = random_index(tmp_path / "i", documents=2)

    def broken(*args: object) -> None:
        raise RuntimeError("engine")

    monkeypatch.setattr("colrank.search.scan", broken)
    with pytest.raises(RuntimeError, match="engine"):
        index.search(unit(np.ones((1, 16))))


def test_threads_share_one_reader(tmp_path: Path):
    index, _ = random_index(tmp_path / "i")
    rng = np.random.default_rng(6)
    queries = [unit(rng.standard_normal((4, 16))) for _ in range(8)]
    expected = [[h.id for h in index.search(query, 5)] for query in queries]
    found: list[list[str]] = [[] for _ in queries]

    def work(at: int) -> None:
        for _ in range(10):
            found[at] = [h.id for h in index.search(queries[at], 5)]

    threads = [threading.Thread(target=work, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def test_explain_of_given_vectors_names_similarities(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", model=None)
    index.add_embeddings(["a"], [np.array([[1.0, 0.0], [0.6, 0.8]])])
    explanation = index.explain(np.array([[0.0, 1.0]]), "a")
    assert [round(m.similarity, 3) for m in explanation.tokens] == [0.8]
    assert explanation.score == pytest.approx(0.8, abs=1e-3)
    with pytest.raises(InputError, match="no document or passage 'b'"):
        index.explain(np.array([[0.0, 1.0]]), "b")


def test_ids_with_a_hash_are_told_apart(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", model=None)
    index.add_embeddings(["a", "a#0"], [np.eye(4)[0:1], np.eye(4)[1:2]], texts=["of a", "of a#0"])
    for row, (name, text) in enumerate((("a", "of a"), ("a#0", "of a#0"))):
        hit = index.search(np.eye(4)[row : row + 1], 1)[0]
        assert (hit.document, hit.text) == (name, text)
        explanation = index.explain(np.eye(4)[row : row + 1], hit)
        assert (explanation.document, explanation.text) == (name, text)
        assert explanation.score == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(InputError, match="of a document and of a passage of another"):
        index.explain(np.eye(4)[0:1], "a#0")
    assert index.explain(np.eye(4)[0:1], "a#0#0").document == "a#0"


@pytest.mark.parametrize("size", [1e-30, 1e30, 3e38])
def test_very_small_and_large_vectors_keep_their_direction(tmp_path: Path, size: float):
    index = ColRank.create(tmp_path / "i", model=None)
    index.add_embeddings(["a"], [np.full((1, 8), size, dtype=np.float32)])
    assert index.search(np.full((1, 8), size, dtype=np.float32), 1)[0].score == pytest.approx(1, abs=1e-3)


def test_torch_tensors_generators_and_tuples_are_taken(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", model=None)
    tensors = (torch.eye(4)[row : row + 1] for row in range(3))
    index.add_embeddings(("a", "b", "c"), tensors, metadata=({"n": 1}, {}, {}))
    learning = torch.eye(4, dtype=torch.bfloat16)[1:2].requires_grad_()
    hits = index.search(learning, np.int64(2))
    assert [hit.document for hit in hits] == ["b", "a"]
    assert [hits[0].document for hits in index.search(torch.eye(4)[:, None, :], 1)][:3] == ["a", "b", "c"]
    assert index.search([], 3) == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"texts": [5]}, "text or title"),
        ({"metadata": [None]}, "metadata of document 'a'"),
        ({"texts": ["\udcff"]}, "text or title"),
    ],
)
def test_texts_and_metadata_of_a_wrong_type_are_named(tmp_path: Path, options, told):
    with pytest.raises(InputError, match=told):
        ColRank.create(tmp_path / "i", model=None).add_embeddings(["a"], [np.ones((1, 4))], **options)
    with pytest.raises(InputError, match="id"):
        ColRank.create(tmp_path / "i", model=None).add_embeddings(["\udcff"], [np.ones((1, 4))])


@pytest.mark.parametrize("query", [None, 3])
def test_a_query_of_a_wrong_type_is_named(tmp_path: Path, query):
    index, _ = random_index(tmp_path / "i", documents=2)
    with pytest.raises(InputError, match=f"The query is {type(query).__name__}"):
        index.search(query)


def test_options_that_given_vectors_have_no_use_for_are_refused(tmp_path: Path):
    for options in ({"overlap": 4}, {"passage_tokens": 64}, {"token_weights": "idf"}):
        with pytest.raises(InputError, match="leave them out"):
            ColRank.create(tmp_path / "i", model=None, **options)
    index, _ = random_index(tmp_path / "i", documents=2)
    with pytest.raises(InputError, match="leave out 'some/model'"):
        ColRank.open(index.path, model="some/model")
    with pytest.raises(InputError, match="add vectors to it"):
        index.add([{"id": "a", "text": "text"}])


# The prefilter


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> ColRank:
    """90 ragged documents of clustered vectors in 2 bits."""
    rng = np.random.default_rng(7)
    lengths = rng.integers(1, 40, size=90)
    parts = np.split(clustered(rng, int(lengths.sum()), 16), np.cumsum(lengths)[:-1])
    index = ColRank.create(tmp_path_factory.mktemp("coded") / "i", model=None, bits=2)
    index.add_embeddings([f"d{row:03d}" for row in range(90)], parts)
    return index


def centroids_of(contents: Contents) -> list[set[int]]:
    ids = contents.vectors.columns(0, len(contents.vectors), ["centroid"])["centroid"]
    return [set(part.tolist()) for part in np.split(ids, contents.offsets[1:-1])]


def weighted_query(seed: int, tokens: int, dim: int = 16) -> QueryVectors:
    rng = np.random.default_rng(seed)
    weights = rng.choice([0.0, 0.5, 1.0, 1.7], size=tokens).astype(np.float32)
    return QueryVectors(unit(rng.standard_normal((tokens, dim))), weights)


@given(
    st.integers(1, 12),
    st.integers(1, 40),
    st.integers(1, 60),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 3, 1000]),
)
@settings(deadline=None, max_examples=60)
def test_the_centroids_probed_are_the_most_similar_and_equal_ones_go_by_id(
    tokens, count, nprobe, seed, values
):
    rng = np.random.default_rng(seed)
    similarity = (rng.integers(values, size=(tokens, count)) / 1000).astype(np.float32)
    found = prefilter._probe(similarity, nprobe)
    assert found.dtype == np.int64
    for row, held in zip(found.tolist(), similarity.tolist(), strict=True):
        assert row == sorted(range(count), key=lambda centroid: (-held[centroid], centroid))[:nprobe]


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.sampled_from([1, 2, 5, 20, 10_000]))
@settings(deadline=None, max_examples=40)
def test_first_scores_follow_their_definition(coded: ColRank, seed: int, tokens: int, nprobe: int):
    contents = coded.snapshot.contents
    table = contents.vectors.codec.centroids.astype(np.float64)
    query = weighted_query(seed, tokens)
    similarity = query.vectors.astype(np.float64) @ table.T
    probed = np.argsort(-similarity, axis=1, kind="stable")[:, :nprobe]
    expected = {}
    for passage, held in enumerate(centroids_of(contents)):
        score, listed = 0.0, False
        for token, weight in enumerate(query.weights.tolist()):
            # Of the lists that hold the passage the best, of none the farthest that was probed.
            inside = [similarity[token, c] for c in probed[token].tolist() if c in held]
            listed |= bool(inside)
            score += weight * max(inside, default=similarity[token, probed[token, -1]])
        if listed:
            expected[passage] = score
    rows, scores = prefilter._list_scores(contents, probed, similarity.astype(np.float32), query.weights)
    assert rows.tolist() == list(expected)
    np.testing.assert_allclose(scores, list(expected.values()), atol=1e-5)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.sampled_from([1, 5, 22, 23, 60, 89]))
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_shortlist_is_the_best_by_centroids(
    engine: str, coded: ColRank, seed: int, tokens: int, shortlist: int
):
    contents = coded.snapshot.contents
    codec = contents.vectors.codec
    query = weighted_query(seed, tokens)
    if not query.weights.any():
        query.weights[:] = 1
    similarity = query.turned(codec) @ codec.centroids.T.astype(np.float64)
    scores = np.array(
        [query.weights @ similarity[:, sorted(held)].max(axis=1) for held in centroids_of(contents)]
    )
    # With every list probed the first scores are the centroid scores.
    found = candidates(query, contents, Plan(10_000, shortlist, NO_PRUNING))
    assert found.tolist() == sorted(set(found.tolist()))
    assert len(found) == shortlist
    left_out = np.setdiff1d(np.arange(90), found)
    # The native kernels keep similarities to centroids in bytes: half a step of at most 2/255 for each token.
    error = 1e-5 if engine == "torch" else float(query.weights.sum()) / 255
    assert scores[found].min() >= scores[left_out].max() - 2 * error


def test_timings_name_the_parts(engine: str, coded: ColRank):
    query = unit(np.random.default_rng(3).standard_normal((5, 16)))
    parts = list(coded.search(query, 3, scan="never", nprobe=4, shortlist=5).timings)
    gather = [] if engine == "centroids" else ["gather"]
    assert parts == ["encode", "probe", *gather, "prune", "score", "select"]
    assert list(coded.search(query, 3, scan="always").timings) == ["encode", "scan", "select"]


def test_every_engine_gives_the_same_hits_and_scores(
    coded: ColRank, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    rng = np.random.default_rng(12)
    queries = [unit(rng.standard_normal((tokens, 16))) for tokens in (1, 4, 9, 33)]
    found = {}
    for engine in ("native", "torch"):
        if engine == "torch":
            monkeypatch.setattr("colrank.shards.TokenVectors.native", property(lambda tokens: None))
        found[engine] = [
            [(hit.id, hit.score) for hit in coded.search(query, k, by=by, scan=scan, nprobe=40, shortlist=60)]
            for query in queries
            for k in (1, 7, 30)
            for by in ("passage", "document")
            for scan in ("always", "never")
        ]
    assert found["native"] == found["torch"]


def test_memory_of_first_scores_follows_the_passages_not_the_query(coded: ColRank):
    contents = coded.snapshot.contents
    peaks = []
    for tokens in (8, 256):
        similarity = weighted_query(1, tokens).vectors @ contents.vectors.codec.centroids.T
        probed = prefilter._probe(similarity, 10_000)
        tracemalloc.start()
        prefilter._list_scores(contents, probed, similarity, np.ones(tokens, dtype=np.float32))
        peaks.append(tracemalloc.get_traced_memory()[1] - similarity.nbytes)  # as many values are gathered
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize(
    ("knobs", "k", "expected"),
    [
        (Knobs(), 10, Plan(16, 128, NO_PRUNING)),
        (Knobs(), 300, Plan(32, 1200, NO_PRUNING)),
        (Knobs(2, 16, 0.4, k=5), 5, Plan(2, 16, 0.4)),
        (Knobs(2, 16, 0.4, k=5), 1, Plan(2, 16, 0.4)),
        (Knobs(2, 3, 0.4, k=5), 5, Plan(2, 5, 0.4)),
        (Knobs(2, 16, 0.4, k=5), 6, Plan(16, 128, NO_PRUNING)),
        (Knobs(2, 16, 0.4, k=10), 100, Plan(16, 400, NO_PRUNING)),
        (Knobs(64, 5000, 0.4, k=10), 100, Plan(64, 5000, NO_PRUNING)),
        (Knobs(64, None, None, k=10), 10, Plan(64, 128, NO_PRUNING)),
        # Stored before an index kept the k.
        (Knobs(2, 16, 0.4), 1, Plan(16, 128, NO_PRUNING)),
        (Knobs(64, 16, 0.4), 10, Plan(64, 128, NO_PRUNING)),
    ],
)
def test_settings_tuned_for_few_hits_do_not_narrow_a_search_for_more(knobs: Knobs, k: int, expected: Plan):
    snapshot: Any = SimpleNamespace(manifest=Manifest(generation=1, dim=4, knobs=knobs))
    assert plan(snapshot, SearchConfig(), k) == expected
    # What is asked for goes before all else.
    assert plan(snapshot, SearchConfig("never", 3, 7, 0.9), k) == Plan(3, max(k, 7), 0.9)
    assert plan(snapshot, SearchConfig(prune=0.0), k).prune == 0


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """The settings of each look through the lists."""
    seen: list[Plan] = []

    def counted(query: QueryVectors, contents: Contents, settings: Plan, **options: Any) -> Any:
        seen.append(settings)
        return candidates(query, contents, settings, **options)

    monkeypatch.setattr("colrank.search.candidates", counted)
    return seen


@pytest.mark.parametrize("by", ["passage", "document"])
def test_a_search_for_all_there_is_looks_through_no_lists(
    coded: ColRank, looked: list[Plan], monkeypatch: pytest.MonkeyPatch, by: Any
):
    query = unit(np.random.default_rng(8).standard_normal((5, 16)))
    whole = [(hit.id, hit.score) for hit in coded.search(query, 200, by=by, scan="always")]
    assert len(whole) == 90
    for k in (90, 91, 1000):
        hits = coded.search(query, k, by=by, scan="never", nprobe=1, shortlist=1)
        assert [(hit.id, hit.score) for hit in hits] == whole
        assert list(hits.timings) == ["encode", "score", "select"]
    assert looked == []
    # So does one whose shortlist has room for all.
    monkeypatch.setattr("colrank.prefilter._probe", None)
    hits = coded.search(query, 7, by=by, scan="never", nprobe=1, shortlist=90)
    assert [(hit.id, hit.score) for hit in hits] == whole[:7]
    everything = candidates(weighted_query(1, 3), coded.snapshot.contents, default_plan(10))
    assert everything.tolist() == list(range(90))


@pytest.mark.parametrize("engine", ["lists", "torch"], indirect=True)
def test_a_search_that_finds_too_few_ends_by_scoring_every_passage(
    engine: str, coded: ColRank, looked: list[Plan]
):
    query = unit(np.random.default_rng(9).standard_normal((1, 16)))
    centroids = coded.stats()["codec"]["centroids"]
    assert centroids > 40
    whole = [(hit.id, hit.score) for hit in coded.search(query, 200, scan="always")]
    hits = coded.search(query, 80, scan="never", nprobe=1, shortlist=1)
    # Widened while that is less than a quarter of the lists, or until the shortlist has room for all.
    assert looked[0] == Plan(1, 80, NO_PRUNING)
    assert all(4 * settings.nprobe < centroids for settings in looked)
    assert [settings.nprobe for settings in looked] == [2**step for step in range(len(looked))]
    assert [(hit.id, hit.score) for hit in hits] == whole[:80]


def test_lists_that_give_too_little_are_not_looked_through_to_the_last(
    coded: ColRank, monkeypatch: pytest.MonkeyPatch
):
    seen: list[Plan] = []

    def few(query: QueryVectors, contents: Contents, settings: Plan, *, among: Any, spent: Any) -> Any:
        assert among is None
        seen.append(settings)
        return np.arange(5)

    monkeypatch.setattr("colrank.search.candidates", few)
    query = unit(np.random.default_rng(9).standard_normal((3, 16)))
    centroids = coded.stats()["codec"]["centroids"]
    hits = coded.search(query, 20, scan="never", nprobe=3, shortlist=1, prune=0.5)
    assert seen[0] == Plan(3, 20, 0.5)
    widths = [3 * 2**step for step in range(20) if 4 * 3 * 2**step < centroids]
    assert len(widths) > 1
    assert seen[1:] == [Plan(width, 20 * width // 3, NO_PRUNING) for width in widths[1:]]
    assert [hit.id for hit in hits] == [hit.id for hit in coded.search(query, 20, scan="always")]
