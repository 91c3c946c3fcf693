"""From a corpus or an index to a comparison: encode once a model, find or draw queries, run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import xxhash

from colrank.builder import Progress
from colrank.compare.bases import Base, Opened, base_of_index, base_of_paths
from colrank.compare.build import Centroids, LeftOut
from colrank.compare.contestants import Part
from colrank.compare.front import Budget
from colrank.compare.judged import JudgedQueries, check_several, read_judged
from colrank.compare.models import check_different, model_labels, read_models
from colrank.compare.queries import draw_queries
from colrank.compare.result import Comparison
from colrank.compare.run import check_queries, compare
from colrank.compare.variants import Grid, Variant, check_grid, read_grid
from colrank.errors import InputError
from colrank.evaluate.measures import require_ir_measures
from colrank.index import is_index
from colrank.rerankers import Reranker
from colrank.search import Query

DRAWN = 200
"""Queries that are drawn where none are given."""

USUAL_LOSS = 0.01
"""Loss at worst that the recommendation allows where no budget is given."""

Apply = Callable[[Base, Variant, Centroids], None]
"""Builds an index of the recommended variant from the base of its model."""


def compare_corpus(
    source: str | Path | Sequence[str | Path],
    queries: Mapping[str, Any] | str | Path | None,
    qrels: Any,
    *,
    model: str | Sequence[str],
    encode: Callable[[str, Path, Sequence[Path]], Opened],
    open_index: Callable[[Path], Opened],
    settings: Callable[[str], Mapping[str, Any]],
    grid: Grid,
    k: int,
    sample: int | None,
    seed: int,
    budget: Budget,
    baselines: bool,
    reranker: Reranker | None,
    cache: Path,
    apply: Apply | None,
    progress: Progress,
) -> Comparison:
    """Compare variants of a corpus or of an index; see `colrank.api.ColRank.compare`.

    Args:
        encode: indexes paths with a model's whole float32 vectors into a folder.
        open_index: opens an index.
        settings: what decides how text becomes vectors of a model, for the name in the cache.
        cache: folder of encoded corpora, and of variants until the comparison is done.
        apply: builds an index of the recommended variant, or None.
    """
    paths = [Path(source)] if isinstance(source, str | Path) else [Path(path) for path in source]
    models = read_models(model)
    judged = _judged(queries, qrels, sample, seed, reranker)
    if len(models) > 1:
        check_several(judged, any(map(is_index, paths)))
    check_grid(grid, len(models) > 1)
    if len(paths) == 1 and is_index(paths[0]):
        bases = [base_of_index(open_index(paths[0]), cache, progress)]
    else:
        bases = [
            base_of_paths(paths, settings(each), cache, _encoder_of(encode, each, paths), open_index)
            for each in models
        ]
    warnings = judged.warnings if judged else []
    parts = _parts(models, bases, judged, grid, sample or DRAWN, seed, warnings)
    found = compare(
        parts,
        judged.qrels if judged else None,
        k=k,
        budget=budget if budget.given else Budget(loss=USUAL_LOSS),
        baselines=baselines and judged is not None and judged.texts,
        reranker=reranker,
        progress=progress,
        warnings=warnings,
    )
    if apply is not None:
        chosen = found.row(found.recommended)
        at = [each.label for each in found.models].index(chosen.model)
        folder = parts[at].folder
        apply(bases[at], chosen.variant, Centroids(folder / "whole" if parts[at].left_out else folder))
    for part in parts:
        shutil.rmtree(part.folder, ignore_errors=True)
    return found


def _judged(
    queries: Any, qrels: Any, sample: int | None, seed: int, reranker: Reranker | None
) -> JudgedQueries | None:
    """What the comparison is judged by, or None where sentences are to be drawn."""
    if (queries is None) != (qrels is None):
        missing, given = ("queries", "qrels") if queries is None else ("qrels", "queries")
        raise InputError(f"There are {given} and no {missing}; give both, or neither to draw sentences.")
    if queries is None:
        if reranker is not None:
            raise InputError(
                "A cross-encoder reads the queries' texts; give queries and qrels, or leave rerank out."
            )
        return None
    require_ir_measures()
    judged = read_judged(queries, qrels, sample, seed)
    check_queries(len(judged.inputs))
    return judged


def _encoder_of(
    encode: Callable[[str, Path, Sequence[Path]], Opened], model: str, paths: Sequence[Path]
) -> Callable[[Path], Opened]:
    return lambda folder: encode(model, folder, paths)


def _parts(
    models: Sequence[str],
    bases: Sequence[Base],
    judged: JudgedQueries | None,
    grid: Grid,
    drawn: int,
    seed: int,
    warnings: list[str],
) -> list[Part]:
    """What each model brings; adds to the warnings."""
    manifests = [base.snapshot.manifest for base in bases]
    labels = [""]
    if len(bases) > 1:
        fingerprints = [manifest.model for manifest in manifests if manifest.model]
        check_different(models, fingerprints)
        labels = model_labels(models, [model.name for model in fingerprints])
    grids = [
        read_grid(grid, manifest.dim, label or None)
        for manifest, label in zip(manifests, labels, strict=True)
    ]
    parts = []
    for base, label, variants in zip(bases, labels, grids, strict=True):
        asked, left_out = _asked(base, judged, drawn, seed, warnings)
        folder = base.folder / f"variants-{_key(left_out, seed)}"
        folder.mkdir(parents=True, exist_ok=True)
        parts.append(
            Part(label, base.snapshot, base.encoded, base.encoder, asked, variants, folder, left_out)
        )
    return parts


def _asked(
    base: Base, judged: JudgedQueries | None, drawn: int, seed: int, warnings: list[str]
) -> tuple[dict[str, Query], LeftOut]:
    """Queries in a base's space: the judged ones, or sentences with what is left out for each."""
    if judged is not None:
        prepared = base.index.prepare(list(judged.inputs.values()), base.snapshot)
        return dict(zip(judged.inputs, prepared, strict=True)), {}
    found = draw_queries(base.snapshot, base.encoder, drawn, seed)
    if len(found.queries) < drawn:
        warnings.append(
            f"Only {len(found.queries)} passages are long enough to give a sentence away and keep their "
            "sense."
        )
    return found.queries, found.left_out


def _key(left_out: LeftOut, seed: int) -> str:
    """A name for what decides the bytes of variants: the tokens that were taken out."""
    digest = xxhash.xxh3_64(str(seed).encode())
    for row, mask in sorted(left_out.items()):
        digest.update(f"{row}:".encode() + mask.tobytes())
    return digest.hexdigest()
