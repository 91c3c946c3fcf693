"""From a corpus or an index to a comparison: encode once, find or draw queries, run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xxhash

from colrank.builder import Progress
from colrank.compare.bases import base_of_index, content_key, index_key
from colrank.compare.build import Centroids
from colrank.compare.front import Budget
from colrank.compare.queries import draw_queries
from colrank.compare.result import Comparison
from colrank.compare.run import compare
from colrank.compare.variants import Variant, read_grid
from colrank.encoder import Encoder
from colrank.errors import InputError
from colrank.evaluate.evaluation import known_judgements, told
from colrank.evaluate.judgements import judged_queries, judgements
from colrank.evaluate.measures import require_ir_measures
from colrank.index import Snapshot, is_index
from colrank.rerankers import Reranker
from colrank.search import Query
from colrank.types import Problems

DRAWN = 200
"""Queries that are drawn where none are given."""

USUAL_LOSS = 0.01
"""Loss at worst that the recommendation allows where no budget is given."""


class Opened(Protocol):
    """An index as a comparison uses it: `colrank.api.ColRank`."""

    @property
    def snapshot(self) -> Snapshot: ...  # noqa: D102
    @property
    def encoder(self) -> Encoder: ...  # noqa: D102
    def prepare(self, inputs: Sequence[Any], snapshot: Snapshot) -> list[Query]: ...  # noqa: D102


def compare_corpus(
    source: str | Path | Sequence[str | Path],
    queries: Mapping[str, Any] | str | Path | None,
    qrels: Any,
    *,
    encode: Callable[[Path, Sequence[Path]], Opened],
    open_index: Callable[[Path], Opened],
    settings: Mapping[str, Any],
    grid: str | Mapping[str, Any] | Sequence[Variant],
    k: int,
    sample: int | None,
    seed: int,
    budget: Budget,
    baselines: bool,
    reranker: Reranker | None,
    cache: Path,
    apply: Callable[[Snapshot, Variant, Centroids], None] | None,
    progress: Progress,
) -> Comparison:
    """Compare variants of a corpus or of an index; see `colrank.api.ColRank.compare`.

    Args:
        encode: indexes paths with whole float32 vectors into a folder.
        open_index: opens an index.
        settings: what decides how text becomes vectors, for the name in the cache.
        cache: folder of encoded corpora, and of variants until the comparison is done.
        apply: builds an index of the recommended variant from the base.
    """
    if (queries is None) != (qrels is None):
        missing, given = ("queries", "qrels") if queries is None else ("qrels", "queries")
        raise InputError(f"There are {given} and no {missing}; give both, or neither to draw sentences.")
    if queries is not None:
        require_ir_measures()
    elif reranker is not None:
        raise InputError(
            "A cross-encoder reads the queries' texts; give queries and qrels, or leave rerank out."
        )
    paths = [Path(source)] if isinstance(source, str | Path) else [Path(path) for path in source]
    index, folder = _base(paths, encode, open_index, settings, cache, progress)
    base = index.snapshot
    encoder = None if base.manifest.model is None else index.encoder
    variants = read_grid(grid, base.manifest.dim)
    warnings = []
    left_out: Mapping[int, Any] = {}
    judged = None
    if queries is None:
        drawn = draw_queries(base, encoder, sample or DRAWN, seed)
        asked, left_out = drawn.queries, drawn.left_out
        if len(asked) < (sample or DRAWN):
            warnings.append(
                f"Only {len(asked)} passages are long enough to give a sentence away and keep their sense."
            )
    else:
        asked, judged, warning = _judged(index, queries, qrels, sample, seed)
        warnings += warning
    work = folder / f"variants-{_key(left_out, seed)}"
    work.mkdir(parents=True, exist_ok=True)
    found = compare(
        base,
        asked,
        judged,
        variants=variants,
        folder=work,
        encoder=encoder,
        left_out=left_out,
        k=k,
        budget=budget if budget.given else Budget(loss=USUAL_LOSS),
        baselines=baselines and judged is not None and all(query.text for query in asked.values()),
        reranker=reranker,
        progress=progress,
        warnings=warnings,
    )
    if apply is not None:
        apply(base, found.row(found.recommended).variant, Centroids(work / "whole" if left_out else work))
    shutil.rmtree(work, ignore_errors=True)
    return found


def _base(
    paths: Sequence[Path],
    encode: Callable[[Path, Sequence[Path]], Opened],
    open_index: Callable[[Path], Opened],
    settings: Mapping[str, Any],
    cache: Path,
    progress: Progress,
) -> tuple[Opened, Path]:
    """The corpus with whole vectors, from the cache where it is there, and its folder in the cache."""
    if len(paths) == 1 and is_index(paths[0]):
        index = open_index(paths[0])
        folder = cache / f"index-{index_key(index.snapshot)}"
        has_model = index.snapshot.manifest.model is not None
        base_of_index(
            folder / "base", index.snapshot, (lambda: index.encoder) if has_model else None, progress
        )
        return _Moved(index, open_index(folder / "base").snapshot), folder
    folder = cache / f"corpus-{content_key(paths, settings)}"
    if is_index(folder / "base"):
        return open_index(folder / "base"), folder
    return encode(folder / "base", paths), folder


class _Moved:
    """An index whose model serves for another snapshot: the base in the cache is not where it was made."""

    def __init__(self, index: Opened, snapshot: Snapshot) -> None:
        self._index = index
        self.snapshot = snapshot

    @property
    def encoder(self) -> Encoder:
        return self._index.encoder

    def prepare(self, inputs: Sequence[Any], snapshot: Snapshot) -> list[Query]:
        return self._index.prepare(inputs, snapshot)


def _judged(
    index: Opened, queries: Any, qrels: Any, sample: int | None, seed: int
) -> tuple[dict[str, Query], dict[str, dict[str, int]], list[str]]:
    """Judged queries, encoded, with their judgements, and what was left out."""
    texts = judged_queries(queries)
    problems = Problems()
    judged = known_judgements(texts, judgements(qrels), problems)
    warnings = told(problems)
    names = list(judged)
    if sample is not None and sample < len(names):
        random = np.random.default_rng(seed)
        names = [names[at] for at in sorted(random.permutation(len(names))[:sample].tolist())]
        wider = (len(judged) / len(names)) ** 0.5
        warnings.append(
            f"{len(names):,} of {len(judged):,} queries were drawn: intervals are about {wider:.1f} times as "
            "wide as with all of them."
        )
    prepared = index.prepare([texts[name] for name in names], index.snapshot)
    return dict(zip(names, prepared, strict=True)), {name: judged[name] for name in names}, warnings


def _key(left_out: Mapping[int, Any], seed: int) -> str:
    """A name for what decides the bytes of variants: the tokens that were taken out."""
    digest = xxhash.xxh3_64(str(seed).encode())
    for row, mask in sorted(left_out.items()):
        digest.update(f"{row}:".encode() + mask.tobytes())
    return digest.hexdigest()
