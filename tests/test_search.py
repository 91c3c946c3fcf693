"""Search over given vectors: right hits, right order, right counts."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colrank import ColRank
from colrank.errors import InputError


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
