"""Candidates: from the centroids nearest to the query's tokens to a short list of passages.

    probe    the nprobe centroids nearest to each query token
    gather   the passages in their postings, with a first score from the probed lists alone
    prune    centroid scores: MaxSim in which each token stands for its centroid; the best go on

After PLAID (Santhanam et al. 2022, arXiv:2205.09707), with its threshold (`prune`): a centroid that is less
similar than that to every query token is left out of the centroid scores. The first score is WARP's (Scheerer
et al. 2025, arXiv:2501.17788): where a passage is in none of a query token's lists, that token counts as much
as its farthest probed centroid.

The native kernels compute centroid scores from a table of bytes, a few processor cycles a token, so that up
to `SCAN_CENTROIDS_BELOW` tokens they give one to every passage: nothing is probed, and no list leaves a
passage out.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from colrank_kernels import NativeQuery, largest
from numpy.typing import NDArray

from colrank.config import SearchConfig
from colrank.errors import IndexDamaged
from colrank.index import Contents, Snapshot
from colrank.score import QueryVectors
from colrank.score.native_scores import check_tokens, prepared
from colrank.shards import token_rows
from colrank.timing import timed

_BLOCK_TOKENS = 1 << 15

SCAN_CENTROIDS_BELOW = 500_000
"""Below so many tokens the native kernels give every passage a centroid score."""

GATHERED = 16
"""Passages that get centroid scores, for each of the shortlist."""

NO_PRUNING = -1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The prefilter's settings for one search; see `colrank.config.SearchConfig`."""

    nprobe: int
    shortlist: int
    prune: float


def plan(snapshot: Snapshot, config: SearchConfig, k: int) -> Plan:
    """Settings for k hits: those given, else those stored in the index, else the defaults.

    Stored settings are known to suffice for the k that they were tuned for and for fewer. More hits get what
    is wider of the stored and the default ones, and no pruning.
    """
    stored, default = snapshot.manifest.knobs, default_plan(k)
    nprobe = stored.nprobe or default.nprobe
    shortlist = stored.shortlist or default.shortlist
    prune = default.prune if stored.prune is None else stored.prune
    if stored.k is None or k > stored.k:
        nprobe, shortlist = max(nprobe, default.nprobe), max(shortlist, default.shortlist)
        prune = NO_PRUNING
    return Plan(
        config.nprobe or nprobe,
        max(k, config.shortlist or shortlist),
        prune if config.prune is None else config.prune,
    )


def default_plan(k: int) -> Plan:
    """Settings for k hits: on the judged collections at least .99 of the full scan's best 10 and .97 of its
    best 100 are found (`bench/quality.py`; chosen by `bench/prefilter.py`)."""
    return Plan(nprobe=16 if k <= 200 else 32, shortlist=max(128, 4 * k), prune=NO_PRUNING)


def candidates(
    query: QueryVectors,
    contents: Contents,
    settings: Plan,
    *,
    among: NDArray[np.int64] | None = None,
    prune: bool = True,
    spent: dict[str, float] | None = None,
) -> NDArray[np.int64]:
    """Passages worth scoring from their codes, ascending: int64.

    Args:
        query: at least one token.
        contents: with postings.
        settings: how wide to look; a shortlist that has room for every passage in question gives them all.
        among: passages that may be found, ascending; None for all with tokens.
        prune: False gives every passage in the probed lists.
        spent: seconds of `probe`, `gather` and `prune` are added to it.

    Raises:
        IndexDamaged: a posting names a passage, or a token a centroid, that is not there.
    """
    assert contents.postings is not None
    spent = {} if spent is None else spent
    findable = contents.filled if among is None else among
    if settings.shortlist >= len(findable):
        return findable
    if contents.vectors.native is not None:
        return _native_candidates(query, contents, settings, findable, prune, spent)
    allowed = None if among is None else _mask(contents.passage_rows, among)
    codec = contents.vectors.codec
    assert codec.centroids is not None
    # A token of no weight adds nothing to any score.
    live = query.weights > 0
    if not live.any():
        live[:] = True
    vectors = query.turned(codec).astype(np.float32)[live]
    weights = query.weights[live]
    with timed(spent, "probe"):
        similarity = vectors @ codec.centroids.T
        probed = _probe(similarity, settings.nprobe)
    if not prune:
        listed = np.unique(contents.postings.gather(np.unique(probed))[0])
        return listed if allowed is None else listed[allowed[listed]]
    with timed(spent, "gather"):
        rows, scores = _list_scores(contents, probed, similarity, weights)
        if allowed is not None:
            rows, scores = rows[allowed[rows]], scores[allowed[rows]]
        wide = _best(rows, scores, GATHERED * settings.shortlist)
    if len(wide) <= settings.shortlist:
        return wide
    with timed(spent, "prune"):
        by_centroids = _centroid_scores(contents, wide, similarity, weights, settings.prune)
        return _best(wide, by_centroids, settings.shortlist)


def scans_centroids(contents: Contents) -> bool:
    """Whether every passage gets a centroid score, so that the postings are not looked up."""
    return contents.vectors.native is not None and len(contents.vectors) < SCAN_CENTROIDS_BELOW


def _native_candidates(
    query: QueryVectors,
    contents: Contents,
    settings: Plan,
    findable: NDArray[np.int64],
    prune: bool,
    spent: dict[str, float],
) -> NDArray[np.int64]:
    """The same by the native kernels."""
    whole = len(findable) == contents.passage_rows
    rows: NDArray[np.int64] | None
    with timed(spent, "probe"):
        native = prepared(query, contents.vectors)
        native.compare(settings.prune)
    if scans_centroids(contents):
        if not prune:
            return findable
        rows = None if whole else findable
    else:
        with timed(spent, "gather"):
            wanted = GATHERED * settings.shortlist if prune else contents.passage_rows
            allowed = None if whole else _mask(contents.passage_rows, findable)
            rows = _listed(native, contents, len(query.vectors), settings.nprobe, allowed, wanted)
        if not prune or len(rows) <= settings.shortlist:
            return rows
    with timed(spent, "prune"):
        scores = np.empty(contents.passage_rows if rows is None else len(rows), dtype=np.float32)
        if not native.centroid_scores(contents.offsets, rows, settings.prune, scores):
            check_tokens(rows, contents.vectors, contents.offsets)
        best = largest(scores, settings.shortlist)
    return best if rows is None else rows[best]


def _listed(
    native: NativeQuery,
    contents: Contents,
    tokens: int,
    nprobe: int,
    allowed: NDArray[np.bool_] | None,
    wanted: int,
) -> NDArray[np.int64]:
    """Passages of the best scores from the probed lists alone, ascending, at most `wanted`."""
    assert contents.postings is not None
    lists, centroids = contents.postings.native, contents.vectors.codec.centroids
    assert lists is not None
    assert centroids is not None
    probed = np.empty((tokens, min(nprobe, len(centroids))), dtype=np.int64)
    native.probe(probed)
    rows = native.listed(lists, probed, None if allowed is None else allowed.view(np.uint8), wanted)
    if rows is None:
        raise IndexDamaged("A posting names a passage that is not there; index again with --overwrite.")
    return rows


def _mask(count: int, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    allowed = np.zeros(count, dtype=bool)
    allowed[rows] = True
    return allowed


def _best(rows: NDArray[np.int64], scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """The `count` rows of largest score, ascending; equal scores go by row."""
    if len(rows) <= count:
        return rows
    order = np.argsort(-scores, kind="stable")[:count]
    return np.sort(rows[order])


def _probe(similarity: NDArray[np.float32], nprobe: int) -> NDArray[np.int64]:
    """The `nprobe` centroids most similar to each query token: int64 `[tokens, nprobe]`.

    Best first, equal ones by id; as many columns as there are centroids, at most.

    They are chosen from the similarities to all centroids, which the scores need anyway: for 32 tokens and
    65,536 centroids of 96 dimensions that product is 0.4 GFLOP, about 10 ms. A graph would save none of
    it, misses some of the nearest, and takes most of a minute to make in every process that searches.
    """
    count = similarity.shape[1]
    nprobe = min(nprobe, count)
    out = np.empty((len(similarity), nprobe), dtype=np.int64)
    for row, values in zip(out, similarity, strict=True):
        near = np.flatnonzero(values >= np.partition(values, count - nprobe)[count - nprobe])
        row[:] = near[np.argsort(-values[near], kind="stable")[:nprobe]]
    return out


def _list_scores(
    contents: Contents,
    probed: NDArray[np.int64],
    similarity: NDArray[np.float32],
    weights: NDArray[np.float32],
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Passages in the probed lists, ascending, and their scores from those lists alone.

    Goes from query token to query token, so that memory follows the passages and one token's lists.
    """
    assert contents.postings is not None
    passages = contents.passage_rows
    near = np.take_along_axis(similarity, probed, axis=1)
    total = np.zeros(passages, dtype=np.float32)
    gain = np.empty(passages, dtype=np.float32)
    found = np.zeros(passages, dtype=bool)
    for centroids, values, weight in zip(probed[:, ::-1], near[:, ::-1], weights, strict=True):
        listed, places = contents.postings.gather(centroids)
        # The best list comes last, and of several mentions of a passage the last one stays.
        gain[listed] = (weight * (values - values[0]))[places]
        total[listed] += gain[listed]  # once for each passage, however often it is mentioned
        found[listed] = True
    rows = np.flatnonzero(found)
    return rows, total[rows] + weights @ near[:, -1]


def _centroid_scores(
    contents: Contents,
    rows: NDArray[np.int64],
    similarity: NDArray[np.float32],
    weights: NDArray[np.float32],
    prune: float,
) -> NDArray[np.float32]:
    """MaxSim of some passages in which every token stands for its centroid: float32 `[rows]`."""
    lengths = contents.offsets[rows + 1] - contents.offsets[rows]
    owner = np.repeat(np.arange(len(rows)), lengths)
    ids = contents.vectors.take(token_rows(rows, contents.offsets), ["centroid"])["centroid"]
    contents.vectors.codec.check_ids(ids)
    if prune > NO_PRUNING:
        kept = similarity.max(axis=0)[ids] >= prune
        ids, owner = ids[kept], owner[kept]
    out = np.full(len(rows), -np.inf, dtype=np.float32)
    by_centroid = np.ascontiguousarray(similarity.T)
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    cuts = [
        0,
        *np.searchsorted(starts, np.arange(_BLOCK_TOKENS, len(ids), _BLOCK_TOKENS)).tolist(),
        len(starts),
    ]
    for begin, end in itertools.pairwise(cuts):
        if begin < end:
            last = starts[end] if end < len(starts) else len(ids)
            block = by_centroid[ids[starts[begin] : last]]
            best = np.maximum.reduceat(block, starts[begin:end] - starts[begin], axis=0)
            out[owner[starts[begin:end]]] = best @ weights
    return out


def widened(settings: Plan) -> Plan:
    """Settings that look further."""
    return replace(settings, nprobe=2 * settings.nprobe, shortlist=2 * settings.shortlist, prune=NO_PRUNING)
