"""The cheapest settings of the prefilter that reach a wanted recall on an index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from colrank.config import SearchConfig, check_k, check_recall
from colrank.encoder import Encoder
from colrank.errors import InputError
from colrank.index import Snapshot
from colrank.prefilter import NO_PRUNING
from colrank.search import Query, scans, search
from colrank.types import Hits, Vectors

NPROBES = (2, 4, 8, 16, 32)
SHORTLISTS = (1, 2, 4, 8, 16, 32)
"""Shortlists tried, in multiples of k."""

PRUNES = (0.2, 0.3, 0.4, 0.5)
DRAWN_QUERIES = 64
_DRAWN_WORDS = 12
_DRAWN_TOKENS = 24


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting of the prefilter and what it gave.

    Attributes:
        nprobe, shortlist, prune: the setting; all None for a scan of every passage.
        recall: mean share of the k best passages of the full scan that it found, not rounded.
        milliseconds: median time of a query, encoding left out.
    """

    nprobe: int | None
    shortlist: int | None
    prune: float | None
    recall: float
    milliseconds: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was tried and what was found.

    Attributes:
        k: hits a query.
        wanted: the recall asked for.
        queries: how many were tried.
        drawn: whether they were drawn from the index's own passages, which are easier than real ones.
        scan: the full scan, which recall is measured against.
        trials: all that was tried, in order.
        best: the fastest trial that reaches the wanted recall; None when none does.
    """

    k: int
    wanted: float
    queries: int
    drawn: bool
    scan: Trial
    trials: tuple[Trial, ...]
    best: Trial | None

    @property
    def table(self) -> pa.Table:
        """One row a trial: nprobe, shortlist, prune, recall, milliseconds."""
        return pa.Table.from_pylist([asdict(trial) for trial in self.trials])


def tune(
    snapshot: Snapshot,
    queries: Sequence[Query],
    *,
    k: int = 10,
    recall: float = 0.99,
    drawn: bool = False,
) -> Tuning:
    """Find the fastest settings that reach a recall@k against the full scan of the same codes.

    For each nprobe the shortest list that suffices is looked for, then the strongest pruning that it
    bears; the fastest of these is the best.

    Raises:
        InputError: recall is not above 0 and at most 1, there is no query, or the index has no prefilter.
    """
    k = check_k(k)
    recall = check_recall(recall)
    if not queries:
        raise InputError("There is no query to tune on.")
    scans(snapshot, SearchConfig(scan="never"))
    passages = len(snapshot.contents.filled)
    full = search(snapshot, queries, k=k, config=SearchConfig(scan="always"))
    wanted = [{hit.id for hit in hits} for hits in full]
    trials: list[Trial] = []

    def tried(nprobe: int, shortlist: int, prune: float) -> Trial:
        found = search(snapshot, queries, k=k, config=SearchConfig("never", nprobe, shortlist, prune))
        # A full scan finds equally many for every query, so that the mean share is one division.
        right = sum(len(best & {hit.id for hit in hits}) for best, hits in zip(wanted, found, strict=True))
        share = right / max(1, sum(map(len, wanted)))
        trial = Trial(nprobe, shortlist, prune, share, _milliseconds(found))
        trials.append(trial)
        return trial

    lists = sorted({min(passages, k * times) for times in SHORTLISTS})
    for nprobe in NPROBES:
        for shortlist in lists:
            if tried(nprobe, shortlist, NO_PRUNING).recall >= recall:
                for prune in PRUNES:
                    if tried(nprobe, shortlist, prune).recall < recall:
                        break
                break
    reached = [trial for trial in trials if trial.recall >= recall]
    return Tuning(
        k=k,
        wanted=recall,
        queries=len(queries),
        drawn=drawn,
        scan=Trial(None, None, None, 1.0, _milliseconds(full)),
        trials=tuple(trials),
        best=min(reached, key=lambda trial: trial.milliseconds, default=None),
    )


def _milliseconds(found: Sequence[Hits]) -> float:
    return round(1000 * median(sum(hits.timings.values()) for hits in found), 2)


def drawn_texts(
    snapshot: Snapshot, count: int, encoder: Callable[[], Encoder] | None = None, seed: int = 0
) -> list[str]:
    """Queries of some words each, drawn from the text of random passages; as many as there can be.

    Args:
        snapshot: whose passages.
        count: most queries.
        encoder: gives the model, asked for when there is a text; one of which it knows no token, which it
            would refuse as a query, is passed over. None passes over none.
        seed: of the choice; the same one gives the same queries.
    """
    out: list[str] = []
    for row, random in _drawn_rows(snapshot, seed):
        words = snapshot.contents.passage(row).text.split()
        if len(words) >= 3:
            begin = int(random.integers(0, max(1, len(words) - _DRAWN_WORDS + 1)))
            text = " ".join(words[begin : begin + _DRAWN_WORDS])
            if encoder is None or _knows_any(encoder(), text):
                out.append(text)
        if len(out) == count:
            break
    return out


def _knows_any(encoder: Encoder, text: str) -> bool:
    """Whether the model knows a token of the text itself; those of a prompt do not count."""
    (ids,) = encoder.passage_token_ids([text])
    own = [span.start >= 0 for _, span in encoder.document_tokens(text)]
    return encoder.knows_any(ids[own])


def drawn_vectors(snapshot: Snapshot, count: int, seed: int = 0) -> list[Vectors]:
    """Queries of some token vectors each, float32 `[tokens, dim]`, drawn from random passages."""
    out: list[Vectors] = []
    contents = snapshot.contents
    for row, random in _drawn_rows(snapshot, seed):
        vectors = snapshot.codec.turn_back(contents.passage_vectors(row).astype(np.float32))
        begin = int(random.integers(0, max(1, len(vectors) - _DRAWN_TOKENS + 1)))
        out.append(vectors[begin : begin + _DRAWN_TOKENS])
        if len(out) == count:
            break
    return out


def _drawn_rows(snapshot: Snapshot, seed: int) -> Iterator[tuple[int, Any]]:
    random = np.random.default_rng(seed)
    for row in random.permutation(snapshot.contents.filled).tolist():
        yield row, random
