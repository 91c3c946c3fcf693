"""Where a known right passage was lost on its way to the hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colrank.cascade import Step, run_stages
from colrank.config import By, SearchConfig
from colrank.explain import passage_row, resolve_passage
from colrank.index import Snapshot
from colrank.prefilter import candidates, plan
from colrank.score import exact_scores
from colrank.search import Query, prefiltered_rows, scans, search
from colrank.types import Hit, Hits

Loss = Literal[
    "",
    "not indexed",
    "not probed",
    "pruned",
    "below the candidates",
    "ranked low",
    "refused",
    "unscored",
    "repeats a better hit",
    "removed by MMR",
    "removed by the cap",
]


@dataclass(frozen=True, slots=True)
class Trace:
    """The way of a passage, or of a document's passages, through a search.

    Attributes:
        query, id: what was asked for, and what should have been found.
        lost: how it was lost, "" when it is among the hits.
        stage: where: `index`, `prefilter`, `search`, or a stage after it; "" when it was not lost.
        sentence: the same in words, with the remedy.
        ranks: rank after each stage that it reached, by stage.
    """

    query: str
    id: str
    lost: Loss
    stage: str
    sentence: str
    ranks: dict[str, int]


def trace(
    snapshot: Snapshot,
    query: Query,
    gold: str,
    *,
    config: SearchConfig,
    k: int,
    wanted: int,
    by: By,
    steps: Sequence[tuple[str, Step]],
) -> Trace:
    """Follow a passage, or the passages of a document, through a search.

    Args:
        gold: a document's id or a passage's.
        config: of the search.
        k, wanted: hits in the end, and hits that the search brings for the stages.
        by: what k counts.
        steps: the stages after the search.

    Raises:
        InputError: the id names both a document and a passage of another one.
    """
    ranks: dict[str, int] = {}

    def lost(how: Loss, stage: str, sentence: str) -> Trace:
        return Trace(query.text, gold, how, stage, sentence, ranks)

    rows = _rows(snapshot, gold)
    if not len(rows):
        return lost(
            "not indexed", "index", f"{gold!r} is not in the index, or has no token vectors: index it."
        )
    contents = snapshot.contents
    owners = {contents.document_id(int(contents.passage_documents[row])) for row in rows}
    # By document its best passage stands for it, which need not be the one named.
    names = {f"{next(iter(owners))}#{passage.ordinal}" for passage in contents.passages(rows.tolist())}

    def rank(hits: Sequence[Hit]) -> int | None:
        return next(
            (
                at
                for at, hit in enumerate(hits, start=1)
                if (hit.document in owners if by == "document" else hit.id in names)
            ),
            None,
        )

    hits = search(snapshot, [query], k=wanted, by=by, config=config)[0]
    first = rank(hits)
    if first is None:
        return lost(*_before_the_hits(snapshot, query, rows, config, wanted, by, len(steps) > 0))
    ranks["search"] = first
    after: list[tuple[str, Hits]] = [("search", hits)]
    run_stages(query, hits, steps, lambda name, out: after.append((name, out)))
    for (before, earlier), (name, out) in pairwise(after):
        now = rank(out)
        if now is None:
            place = ranks[before]
            return lost(*_in_a_stage(name, before, place, earlier[place - 1], out, k))
        ranks[name] = now
    return lost("", "", f"It was not lost: it is hit {ranks[after[-1][0]]} of {len(after[-1][1])}.")


def _rows(snapshot: Snapshot, gold: str) -> NDArray[np.int64]:
    """Passages with tokens that an id names; none where the index does not hold it."""
    contents = snapshot.contents
    document = contents.document_row(gold)
    if document is None:
        row = passage_row(snapshot, *gold.rpartition("#")[::2])
        owned: Sequence[int] = [] if row is None else [row]
    else:
        # Refuses an id that is a passage's too.
        resolve_passage(snapshot, gold)
        owned = contents.passages_of(document)
    return np.array(
        [row for row in owned if contents.offsets[row] < contents.offsets[row + 1]], dtype=np.int64
    )


def _before_the_hits(
    snapshot: Snapshot,
    query: Query,
    rows: NDArray[np.int64],
    config: SearchConfig,
    wanted: int,
    by: By,
    staged: bool,
) -> tuple[Loss, str, str]:
    contents = snapshot.contents
    filled = contents.filled
    scores = exact_scores(query.vectors, filled, contents.vectors, contents.offsets)
    best = scores[np.isin(filled, rows)].max()
    place = 1 + int((scores > best).sum())
    told = f"scored in full it would be ranked {place:,} of {len(filled):,} passages"
    if not scans(snapshot, config):
        scored, settings = prefiltered_rows(
            contents, query.vectors, wanted, by, plan(snapshot, config, wanted)
        )
        if settings is not None and not np.isin(scored, rows).any():
            listed = candidates(query.vectors, contents, settings, prune=False)
            if not np.isin(listed, rows).any():
                return (
                    "not probed",
                    "prefilter",
                    f"With nprobe {settings.nprobe} none of its centroids is looked up; {told}: try more.",
                )
            return (
                "pruned",
                "prefilter",
                f"It was looked up, and its centroids scored below the shortlist of {settings.shortlist:,}; "
                f"{told}: try a larger shortlist.",
            )
    if not staged:
        return "ranked low", "search", f"It is below the {wanted} hits; {told}."
    return (
        "below the candidates",
        "search",
        f"It is not among the {wanted} candidates; {told}: no later stage can find it.",
    )


def _in_a_stage(name: str, before: str, place: int, hit: Hit, out: Hits, k: int) -> tuple[Loss, str, str]:
    stood = f"it stood at {place} after {before}"
    if hit.id in out.left_out.get("unscored", ()):
        return (
            "unscored",
            name,
            f"The reranker gave it no score, so that the judge left it out; {stood}.",
        )
    if name == "judge":
        floor = out.verdict.floor if out.verdict else 0.0
        return (
            "refused",
            name,
            f"Its score, {hit.scores['rerank']:.4f}, is below the floor, {floor:g}; {stood}.",
        )
    if name == "dedupe":
        return "repeats a better hit", name, f"A better hit has the same text; {stood}."
    if hit.id in out.left_out.get("max_per_document", ()):
        return "removed by the cap", name, f"Better passages of its document were enough; {stood}."
    if place <= k and name == "mmr":
        return (
            "removed by MMR",
            name,
            f"It is too much like better hits to be one of {k}; {stood}.",
        )
    return "ranked low", before, f"It is ranked {place} by {before}, below the {k} hits asked for."
