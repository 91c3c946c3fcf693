"""Maximal marginal relevance against its definition, and the other ways of choosing the last hits."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import NAN, hit, ids, reranked

from colrank.mmr import PassageSimilarity, choose, reduced, relevance_of, select, without_repeats
from colrank.types import Hits

# Multiples of a power of two: products and differences are exact, so that equal gains are equal.
GRID = st.integers(0, 64).map(lambda step: step / 64)
BALANCES = st.integers(0, 16).map(lambda step: step / 16)


def unit(array: np.ndarray) -> np.ndarray:
    return (array / np.linalg.norm(array, axis=1, keepdims=True)).astype(np.float32)


def blocks(seed: int, lengths: list[int], dim: int = 6) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [unit(rng.standard_normal((length, dim)) + 0.3) for length in lengths]


def greedy(
    relevance: list[float],
    similarity: list[list[float]],
    k: int,
    balance: float,
    owners: list[int],
    cap: int | None,
) -> tuple[list[int], list[float]]:
    """By the definition: at each step the hit of largest gain that the cap allows, the first among equals."""
    chosen: list[int] = []
    gains: list[float] = []
    while len(chosen) < k:
        best: tuple[float, int] | None = None
        for at in range(len(relevance)):
            full = cap is not None and sum(owners[at] == owners[other] for other in chosen) >= cap
            if at in chosen or full:
                continue
            nearest = max((similarity[at][other] for other in chosen), default=0.0)
            gain = balance * relevance[at] - (1 - balance) * nearest
            if best is None or gain > best[0]:
                best = gain, at
        if best is None:
            break
        gains.append(best[0])
        chosen.append(best[1])
    return chosen, gains


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[float], list[list[float]], list[int]]:
    count = draw(st.integers(0, 9))
    relevance = sorted(draw(st.lists(GRID, min_size=count, max_size=count)), reverse=True)
    half = [draw(st.lists(GRID, min_size=at, max_size=at)) for at in range(count)]
    matrix = [[1.0 if a == b else half[max(a, b)][min(a, b)] for b in range(count)] for a in range(count)]
    return relevance, matrix, draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))


@given(problems(), st.integers(1, 10), BALANCES, st.none() | st.integers(1, 3))
@settings(max_examples=150)
def test_the_choice_is_that_of_the_definition(problem, k, balance, cap):
    relevance, matrix, owners = problem
    asked: list[int] = []

    def similarity(place: int) -> np.ndarray:
        asked.append(place)
        return np.array(matrix[place], dtype=np.float64)

    found = choose(np.array(relevance), similarity, k, balance, owners, cap)
    places, gains = greedy(relevance, matrix, k, balance, owners, cap)
    assert found.places == places
    np.testing.assert_allclose(found.gains, gains, rtol=0, atol=1e-15)
    assert len(asked) == len(set(asked)) <= len(places)
    assert balance < 1 or not asked
    # What the cap took out is of owners that have enough, and was not chosen.
    held = Counter(owners[place] for place in found.places)
    assert all(held[owners[place]] == cap for place in found.capped)
    assert not set(found.capped) & set(found.places)
    if len(found.places) < k:
        assert sorted(found.places + found.capped) == list(range(len(relevance)))


@given(problems(), st.integers(1, 10), st.none() | st.integers(1, 3))
def test_lambda_1_keeps_the_order_and_lambda_0_starts_from_the_best(problem, k, cap):
    relevance, matrix, owners = problem
    rows = np.array(matrix, dtype=np.float64).reshape(len(relevance), len(relevance))
    straight = choose(np.array(relevance), rows.__getitem__, k, 1.0, owners, cap)
    held: Counter[int] = Counter()
    expected = []
    for place, owner in enumerate(owners):
        if (cap is None or held[owner] < cap) and len(expected) < k:
            expected.append(place)
            held[owner] += 1
    assert straight.places == expected
    different = choose(np.array(relevance), rows.__getitem__, k, 0.0, owners, cap)
    assert different.places[:1] == [0][: len(relevance)]


def test_a_case_worked_out_by_hand():
    relevance = np.array([1.0, 0.9, 0.5])
    matrix = np.array([[1.0, 0.95, 0.1], [0.95, 1.0, 0.1], [0.1, 0.1, 1.0]])
    # .7 x .9 - .3 x .95 = .345 against .7 x .5 - .3 x .1 = .32; at .6: .16 against .26.
    assert choose(relevance, matrix.__getitem__, 3, 0.7, "abc", None).places == [0, 1, 2]
    found = choose(relevance, matrix.__getitem__, 3, 0.6, "abc", None)
    assert found.places == [0, 2, 1]
    np.testing.assert_allclose(found.gains, [0.6, 0.6 * 0.5 - 0.4 * 0.1, 0.6 * 0.9 - 0.4 * 0.95])


def test_the_cap_counts_inside_the_choice():
    """A hit beyond the cap makes room; it does not leave a hole."""
    relevance = np.linspace(1, 0, 6)
    none = np.zeros(6)
    found = choose(relevance, lambda _: none, 4, 1.0, list("aaabbc"), 2)
    assert (found.places, found.capped) == ([0, 1, 3, 4], [2])


# Similarity of passages


def definition(one: np.ndarray, other: np.ndarray) -> float:
    """Each vector looks for its best match in the other passage; both means are averaged."""
    if not len(one) or not len(other):
        return 0.0
    products = [[float(a @ b) for b in other.astype(np.float64)] for a in one.astype(np.float64)]
    there = sum(max(row) for row in products) / len(one)
    back = sum(max(column) for column in zip(*products, strict=True)) / len(other)
    return min(1.0, max(0.0, (there + back) / 2))


@given(st.integers(0, 10_000), st.lists(st.integers(0, 7), min_size=1, max_size=7))
def test_similarity_is_that_of_the_definition(seed, lengths):
    vectors = blocks(seed, lengths)
    similarity = PassageSimilarity(vectors, None)
    matrix = np.array([similarity(place) for place in range(len(vectors))])
    expected = [[definition(a, b) for b in vectors] for a in vectors]
    np.testing.assert_allclose(matrix, expected, atol=2e-6)
    np.testing.assert_allclose(matrix, matrix.T, atol=2e-6)
    assert matrix.min() >= 0
    assert matrix.max() <= 1
    np.testing.assert_allclose(np.diag(matrix), [float(length > 0) for length in lengths], atol=2e-6)


def test_similarity_of_what_can_be_seen_by_eye():
    along, across, away = np.array([[1, 0]]), np.array([[0, 1]]), np.array([[-1, 0]])
    both = np.array([[1, 0], [0, 1]])
    held = [each.astype(np.float32) for each in (along, across, away, both, np.empty((0, 2)))]
    similarity = PassageSimilarity(held)
    # Of `both` one vector of two is matched: (1 / 2 + 1) / 2.
    np.testing.assert_allclose(similarity(0), [1, 0, 0, 0.75, 0])
    # (0 - 1) / 2 the one way and 0 the other lie below 0 and count as 0.
    np.testing.assert_allclose(similarity(2), [0, 0, 1, 0, 0])
    np.testing.assert_allclose(similarity(4), [0, 0, 0, 0, 0])


def test_passages_without_any_vector_are_alike_to_none():
    similarity = PassageSimilarity([np.empty((0, 4), np.float32)] * 3)
    np.testing.assert_array_equal(similarity(1), [0, 0, 0])
    assert PassageSimilarity([])._lengths.shape == (0,)


@given(st.integers(0, 10_000), st.integers(1, 100), st.integers(1, 40))
def test_reduced_vectors_are_means_of_stretches_of_unit_length(seed, length, most):
    vectors = blocks(seed, [length])[0]
    found = reduced(vectors, most)
    if length <= most:
        np.testing.assert_array_equal(found, vectors)
        return
    assert found.shape == (most, vectors.shape[1])
    assert found.dtype == np.float32
    bounds = [at * length // most for at in range(most + 1)]
    for row, (begin, end) in zip(found, pairwise(bounds), strict=True):
        assert end > begin
        mean = vectors[begin:end].astype(np.float64).mean(axis=0)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-4)


def test_vectors_that_cancel_out_leave_the_first_of_them():
    vectors = np.array([[1, 0], [-1, 0], [0, 1], [0, 1]], dtype=np.float32)
    np.testing.assert_array_equal(reduced(vectors, 2), [[1, 0], [0, 1]])
    np.testing.assert_array_equal(vectors, [[1, 0], [-1, 0], [0, 1], [0, 1]])  # not written into


@given(st.integers(0, 10_000), st.lists(st.integers(1, 90), min_size=2, max_size=4))
@settings(max_examples=30)
def test_long_passages_are_compared_by_their_reductions(seed, lengths):
    vectors = blocks(seed, lengths)
    cut = PassageSimilarity(vectors, 8)
    whole = PassageSimilarity([reduced(block, 8) for block in vectors], None)
    for place in range(len(vectors)):
        np.testing.assert_array_equal(cut(place), whole(place))


# Relevance


def test_relevance_is_the_score_on_0_to_1_within_the_query():
    scores = [9.0, 6.0, 5.0, 1.0]
    np.testing.assert_allclose(relevance_of([hit("a", each) for each in scores]), [1, 0.625, 0.5, 0])
    np.testing.assert_array_equal(relevance_of([hit("a", 0.3)] * 3), [1, 1, 1])
    np.testing.assert_array_equal(relevance_of([hit("a", -4.0), hit("b", -8.0)]), [1, 0])
    assert relevance_of([]).shape == (0,)


def test_unscored_hits_have_none_of_the_relevance_of_scored_ones():
    """Their score is of an earlier stage, on another scale."""
    mixed = [reranked("a", 0.9), reranked("b", 0.6), reranked("c", 0.5), reranked("d", NAN)]
    np.testing.assert_allclose(relevance_of(mixed), [1, 0.25, 0, 0])
    np.testing.assert_array_equal(relevance_of([reranked("a", 0.9), reranked("b", NAN)]), [1, 0])
    # Where nothing was scored, the earlier order stands with its own scores.
    kept = [hit(name, score, unscored=True) for name, score in (("a", 8.0), ("b", 7.0), ("c", 6.0))]
    np.testing.assert_array_equal(relevance_of(kept), [1, 0.5, 0])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_relevance_keeps_any_order_of_finite_scores(scores):
    ordered = sorted(scores, reverse=True)
    found = relevance_of([hit("a", score) for score in ordered])
    assert np.all(np.diff(found) <= 0)
    assert found[0] == 1
    assert np.all((found >= 0) & (found <= 1))
    assert found[-1] == (0 if ordered[-1] < ordered[0] else 1)


# Selection


def chosen_from(hits: Hits, k: int, **more) -> Hits:
    given = {"balance": None, "per_document": None, "similarity": None, **more}
    return select(hits, k, **given)


def test_without_mmr_the_first_k_are_kept_and_the_others_counted():
    given = Hits([hit(name, score) for name, score in zip("abcd", (4.0, 3.0, 3.0, 1.0), strict=True)])
    out = chosen_from(given, 2)
    assert ids(out) == ["a", "b"]
    assert out.left_out == {"k": ["c", "d"]}
    assert "mmr" not in out[0].scores
    assert chosen_from(given, 9).left_out == {}
    assert ids(chosen_from(given, 9)) == list("abcd")


def test_the_cap_says_what_it_took_out():
    given = Hits([hit(name, 9.0 - at, document="xxxyz"[at]) for at, name in enumerate("abcde")])
    out = chosen_from(given, 3, per_document=2)
    assert ids(out) == ["a", "b", "d"]
    assert out.left_out == {"max_per_document": ["c"], "k": ["e"]}


def test_mmr_notes_what_each_hit_was_chosen_for():
    given = Hits([hit("a", 3.0), hit("b", 2.0), hit("c", 1.0)])
    matrix = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=np.float64)
    out = chosen_from(given, 3, balance=0.5, similarity=matrix.__getitem__)
    assert [(each.id, each.scores["mmr"], each.score) for each in out] == [
        ("a", 0.5, 3.0),
        ("c", 0.0, 1.0),
        ("b", -0.25, 2.0),
    ]


@given(
    st.lists(st.tuples(GRID, st.sampled_from("xyz")), max_size=10),
    st.integers(1, 12),
    st.none() | BALANCES,
    st.none() | st.integers(1, 3),
    st.integers(0, 1000),
)
def test_every_hit_is_kept_or_left_out_once(given_hits, k, balance, cap, seed):
    ordered = sorted(given_hits, key=lambda each: -each[0])
    hits = Hits([hit(f"h{at}", score, document=owner) for at, (score, owner) in enumerate(ordered)])
    similarity = PassageSimilarity(blocks(seed, [1 + at % 3 for at in range(len(hits))]))
    out = select(hits, k, balance=balance, per_document=cap, similarity=similarity)
    left = [name for names in out.left_out.values() for name in names]
    assert sorted(ids(out) + left) == sorted(ids(hits))
    assert len(out) <= k
    assert all(count <= (cap or k) for count in Counter(each.document for each in out).values())
    assert all(names for names in out.left_out.values())
    places = {name: at for at, name in enumerate(ids(hits))}
    for names in out.left_out.values():
        assert [places[name] for name in names] == sorted(places[name] for name in names)
    if balance is None:
        assert [places[name] for name in ids(out)] == sorted(places[name] for name in ids(out))


# Repeats


def test_a_repeat_is_told_by_its_words_alone():
    given = Hits(
        [
            hit("a", 3.0, text="The guarantee  lasts\nsix months."),
            hit("b", 2.0, text="the GUARANTEE lasts six months. "),
            hit("c", 1.5, text="The guarantee lasts six months"),
            hit("d", 1.0, text="The guaran\ufb01ed six"),
            hit("e", 0.5, text="THE GUARANFIED SIX"),
        ]
    )
    out = without_repeats(given)
    assert ids(out) == ["a", "c", "d"]
    assert out.left_out == {"dedupe": ["b", "e"]}
    assert out[0].text == "The guarantee  lasts\nsix months."


def test_hits_without_text_repeat_nothing():
    given = Hits([hit("a", text=""), hit("b", text=" "), hit("c", text="")])
    out = without_repeats(given)
    assert ids(out) == ["a", "b", "c"]
    assert out.left_out == {}


def test_the_better_of_two_repeats_stays():
    out = without_repeats(Hits([hit("z", 2.0, text="same"), hit("a", 1.0, text="same")]))
    assert ids(out) == ["z"]


@pytest.mark.parametrize("balance", [None, 1.0, 0.5, 0.0])
def test_no_hits_at_all(balance: float | None):
    out = chosen_from(Hits([], query="q"), 3, balance=balance, per_document=2)
    assert (len(out), out.query, out.left_out) == (0, "q", {})
