"""What is measured: every variant of every model, built from that model's vectors of the corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from colrank.builder import Progress
from colrank.compare.build import Centroids, LeftOut, build_variant
from colrank.compare.measure import in_space
from colrank.compare.variants import REFERENCE, Variant
from colrank.encoder import Encoder
from colrank.index import Snapshot, is_index, open_snapshot
from colrank.search import Query


@dataclass(frozen=True, slots=True)
class Part:
    """A model's part in a comparison.

    Attributes:
        label: what rows of several models are told apart by; "" where there is only one.
        base: whole float32 vectors of the corpus, not pooled.
        encoded: whether they were made by this run.
        encoder: the model; None for given vectors.
        queries: by id, in the space of the base, in the same order for every model.
        variants: the reference first.
        folder: where variants are built; those that are there already are used.
        left_out: tokens of the base that are taken out, where queries were drawn from it.
    """

    label: str
    base: Snapshot
    encoded: bool
    encoder: Encoder | None
    queries: Mapping[str, Query]
    variants: Sequence[Variant]
    folder: Path
    left_out: LeftOut

    @property
    def model(self) -> str:
        """The model's name."""
        return self.base.manifest.model.name if self.base.manifest.model else "given vectors"


@dataclass(frozen=True, slots=True)
class Contestant:
    """A variant of a model, built.

    Attributes:
        queries: in the space of the variant.
    """

    part: Part
    variant: Variant
    snapshot: Snapshot
    queries: Mapping[str, Query]

    @property
    def name(self) -> str:
        """Unique within a comparison."""
        return f"{self.part.label}: {self.variant.name}" if self.part.label else self.variant.name

    @property
    def is_reference(self) -> bool:
        """Whether it is its model's float32 exact."""
        return self.variant == REFERENCE


def built(part: Part, progress: Progress) -> list[Contestant]:
    """All variants of a model; those that only search differently share an index."""
    centroids = Centroids(part.folder)
    stored = dict.fromkeys(variant.stored for variant in part.variants)
    snapshots = {variant: _built(part, variant, centroids, progress) for variant in stored}
    dims = {snapshot.manifest.dim for snapshot in snapshots.values()}
    spaces = {dim: in_space(part.queries, dim) for dim in dims}
    found = []
    for variant in part.variants:
        snapshot = snapshots[variant.stored]
        found.append(Contestant(part, variant, snapshot, spaces[snapshot.manifest.dim]))
    return found


def _built(part: Part, variant: Variant, centroids: Centroids, progress: Progress) -> Snapshot:
    place = part.folder / variant.name.replace(", ", "-").replace(" ", "")
    if not is_index(place):
        build_variant(
            place,
            part.base,
            variant,
            encoder=part.encoder,
            centroids=centroids,
            left_out=part.left_out,
            progress=progress,
        )
    return open_snapshot(place)
