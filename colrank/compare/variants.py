"""What is compared: settings of storage and search, one by one or as a grid."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias

from colrank.config import SearchConfig, StorageConfig
from colrank.errors import InputError


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to store and search a corpus.

    Attributes:
        bits: a dimension; 16 and 32 keep whole vectors.
        dim: dimensions kept of each vector; None keeps all.
        pool: about so many similar tokens become one vector.
        centroids: their number; None follows the number of tokens.
        kind: of residual codes.
        scan, nprobe, shortlist: of the search (`colrank.config.SearchConfig`).
    """

    bits: int
    dim: int | None = None
    pool: int = 1
    centroids: int | None = None
    kind: str = "linear"
    scan: str = "always"
    nprobe: int | None = None
    shortlist: int | None = None

    def __post_init__(self) -> None:
        StorageConfig(self.bits, self.kind, self.pool)
        self.search()
        for name in ("dim", "centroids"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InputError(f"{name} is {value!r}; give a whole number of at least 1.")

    def search(self) -> SearchConfig:
        """How it is searched."""
        return SearchConfig(self.scan, self.nprobe, self.shortlist)

    @property
    def stored(self) -> Variant:
        """The same without what only the search differs in: variants of one index have it in common."""
        return Variant(self.bits, self.dim, self.pool, self.centroids, self.kind)

    @property
    def name(self) -> str:
        """Short and unique within a grid: what differs from the defaults."""
        parts = ["float32" if self.bits == 32 else "float16" if self.bits == 16 else f"{self.bits} bits"]
        if self.bits == 1:
            parts = ["1 bit"]
        if self.kind != "linear":
            parts.append(self.kind)
        parts += [
            f"{label} {value}"
            for label, value in (("dim", self.dim), ("pool", self.pool), ("centroids", self.centroids))
            if value not in (None, 1)
        ]
        if self.scan != "always":
            parts.append("prefilter" if self.scan == "never" else "auto")
        parts += [
            f"{label} {value}"
            for label, value in (("nprobe", self.nprobe), ("shortlist", self.shortlist))
            if value is not None
        ]
        return ", ".join(parts)


REFERENCE = Variant(32)
"""Float32 vectors, every passage scored: what all others are compared with."""

AXES = tuple(field.name for field in fields(Variant))


def fast_grid(dim: int) -> list[Variant]:
    """Twelve variants that show the whole range in little time, the reference first."""
    half = max(1, dim // 2)
    return [
        REFERENCE,
        Variant(16),
        Variant(8),
        Variant(4),
        Variant(2),
        Variant(1),
        Variant(4, dim=half),
        Variant(2, dim=half),
        Variant(4, pool=2),
        Variant(2, pool=2),
        Variant(4, scan="never"),
        Variant(2, scan="never"),
    ]


def full_grid(dim: int) -> list[Variant]:
    """Bits x dim x pool by full scan, and every width through the prefilter at three settings."""
    dims = [None, max(1, dim // 2), max(1, dim // 4)]
    stored = [
        Variant(bits, kept, pool)
        for kept, pool, bits in itertools.product(dims, (1, 2, 3, 4), (32, 16, 8, 4, 2, 1))
    ]
    searched = [
        Variant(bits, scan="never", nprobe=nprobe, shortlist=shortlist)
        for bits in (8, 4, 2, 1)
        for nprobe, shortlist in ((4, 128), (8, 256), (16, 512))
    ]
    return [*stored, *searched]


Grid: TypeAlias = str | Mapping[str, Any] | Sequence[Variant]
"""`fast`, `full`; or lists of values by axis (`AXES`), all combinations of which are taken; or variants."""


def check_grid(grid: Grid, several: bool) -> None:
    """Say what is wrong with a grid whatever the vectors are, before anything is encoded.

    Args:
        several: whether there is more than one model.

    Raises:
        InputError: as `read_grid`, but for a dim that is too large.
    """
    read_grid(grid, sys.maxsize, "any model" if several else None)


def read_grid(grid: Grid, dim: int, model: str | None = None) -> list[Variant]:
    """Variants of a grid, without repetition, the reference first.

    Args:
        dim: dimensions of the vectors.
        model: which of several models has these vectors; None where there is only one. Float32 alone is
            something to compare where there are several.

    Raises:
        InputError: an unknown axis, an impossible value, or nothing to compare.
    """
    if isinstance(grid, str):
        if grid not in ("fast", "full"):
            raise InputError(f"There is no grid {grid!r}; choose fast or full, or give values by name.")
        found = fast_grid(dim) if grid == "fast" else full_grid(dim)
    elif isinstance(grid, Mapping):
        found = _product(grid)
    else:
        found = list(grid)
    for variant in found:
        if variant.dim is not None and variant.dim > dim:
            whose = "the vectors" if model is None else f"the vectors of {model}"
            raise InputError(f"dim is {variant.dim}, and {whose} have {dim}; ask for fewer.")
    # All dimensions are all dimensions, however they were asked for.
    found = [Variant(**{**asdict(v), "dim": None if v.dim == dim else v.dim}) for v in found]
    out = list(dict.fromkeys([REFERENCE, *found]))
    if len(out) < 2 and model is None:
        raise InputError("There is nothing to compare with float32; name at least one other variant.")
    return out


def _product(grid: Mapping[str, Any]) -> list[Variant]:
    values: dict[str, list[Any]] = {}
    for name, given in grid.items():
        if name not in AXES:
            raise InputError(f"The grid has no axis {name!r}; name {', '.join(AXES)}.")
        values[name] = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        if not values[name]:
            raise InputError(f"The axis {name!r} of the grid has no value; give one, or leave it out.")
    values.setdefault("bits", [4])
    return [Variant(**dict(zip(values, each, strict=True))) for each in itertools.product(*values.values())]
