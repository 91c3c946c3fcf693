"""Who is compared: packages with their pins, how each index is built, and how each is asked.

The first search of every build is the engine's own default. The others walk from fewer to more candidates,
so that for a wanted recall the fastest setting that reaches it is among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Settings = dict[str, Any]

TORCH = "torch==2.13.0"
OLDER_TORCH = "torch==2.11.0"
NUMPY = "numpy==2.4.4"
COLRANK = "colrank"
"""Stands among requirements for the working tree."""


@dataclass(frozen=True)
class Rival:
    """One engine.

    Attributes:
        worker: module in `workers`.
        requirements: what its environment is made of.
        builds: settings of an index, each with the settings of searches in it.
        most_tokens: collections of more are left out, for want of memory; 0 is no limit.
        longest: seconds that building one index may take, and that one search job may take.
    """

    name: str
    worker: str
    requirements: tuple[str, ...]
    builds: tuple[tuple[Settings, tuple[Settings, ...]], ...]
    most_tokens: int = 0
    longest: float = 7200
    environment: dict[str, str] = field(default_factory=dict)


def _each(builds: Sequence[Settings], searches: Sequence[Settings]) -> tuple[Any, ...]:
    return tuple((build, tuple(searches)) for build in builds)


def _bits(*bits: int) -> list[Settings]:
    return [{"nbits": each} for each in bits]


_PLAID = [
    {},
    {"n_full_scores": 128, "n_ivf_probe": 4},
    {"n_full_scores": 256, "n_ivf_probe": 8},
    {"n_full_scores": 512, "n_ivf_probe": 8},
    {"n_full_scores": 1024, "n_ivf_probe": 8},
    {"n_full_scores": 1024, "n_ivf_probe": 32},
    {"n_full_scores": 4096, "n_ivf_probe": 32},
]

_STANFORD = [
    {},
    {"ncells": 2, "centroid_score_threshold": 0.45, "ndocs": 1024},
    {"ncells": 4, "centroid_score_threshold": 0.4, "ndocs": 1024},
    {"ncells": 4, "centroid_score_threshold": 0.4, "ndocs": 4096},
    {"ncells": 8, "centroid_score_threshold": 0.3, "ndocs": 2048},
    {"ncells": 8, "centroid_score_threshold": 0.2, "ndocs": 4096},
    {"ncells": 16, "centroid_score_threshold": 0.0, "ndocs": 8192},
]

_WARP = [
    {},
    {"nprobe": 8},
    {"nprobe": 16, "bound": 1024},
    {"nprobe": 32, "bound": 2048},
    {"nprobe": 64, "bound": 4096, "max_candidates": 1 << 20},
    {"nprobe": 128, "bound": 8192, "max_candidates": 1 << 22, "t_prime": 1 << 20},
    {
        "nprobe": 64,
        "bound": 4096,
        "max_candidates": 1 << 22,
        "t_prime": 1 << 20,
        "centroid_score_threshold": 0.0,
    },
]

# Each query token finds so many vectors by itself: the hits wanted times the refine factor.
_LANCE_PQ = [
    {},
    *({"refine_factor": factor} for factor in (5, 20, 100)),
    {"nprobes": 64, "refine_factor": 100},
]
_LANCE_FLAT = [{}, *({"refine_factor": factor} for factor in (5, 20))]
_LANCE_HNSW = [{}, {"refine_factor": 5}, {"ef": 400, "refine_factor": 20}]

_COLRANK = [
    {},
    {"scan": "always"},
    {"scan": "never", "nprobe": 4, "shortlist": 32},
    {"scan": "never", "nprobe": 8, "shortlist": 32},
    {"scan": "never", "nprobe": 8, "shortlist": 64},
    {"scan": "never", "nprobe": 16, "shortlist": 64},
    {"scan": "never", "nprobe": 16, "shortlist": 96},
    {"scan": "never", "nprobe": 32, "shortlist": 256},
]

RIVALS = (
    Rival(
        "colrank",
        "colrank_index",
        (f"{COLRANK}[cpu]", TORCH, NUMPY),
        _each([{"bits": bits} for bits in (4, 8, 2, 1)], _COLRANK),
    ),
    Rival(
        "fast-plaid",
        "fast_plaid",
        ("fast-plaid==1.7.0.2110", OLDER_TORCH, NUMPY),
        _each(_bits(8, 4, 2), _PLAID),
    ),
    Rival(
        "xtr-warp-rs",
        "xtr_warp",
        ("xtr-warp-rs==2.1.0.2110", OLDER_TORCH, NUMPY),
        # It takes 2 or 4 bits.
        _each(_bits(4, 2), _WARP),
    ),
    Rival(
        "pylate",
        "pylate_plaid",
        ("pylate==1.6.0", "fast-plaid==1.4.6.2110", OLDER_TORCH, NUMPY),
        (
            *_each(_bits(4, 8), [_PLAID[0], *_PLAID[2:5]]),
            *_each([{"use_fast": False, "nbits": bits} for bits in (2, 8)], [{}, *_STANFORD[2:6]]),
        ),
    ),
    Rival(
        "stanford",
        "stanford",
        ("colbert-ai==0.2.22", "transformers==4.48.3", "faiss-cpu==1.15.1", TORCH, NUMPY),
        _each(_bits(8, 4, 2), _STANFORD),
    ),
    Rival(
        "lancedb",
        "lancedb_multivector",
        ("lancedb==0.40.0", "pyarrow==26.0.1", NUMPY),
        (
            ({"index_type": "IVF_PQ"}, tuple(_LANCE_PQ)),
            ({"index_type": "IVF_FLAT"}, tuple(_LANCE_FLAT)),
            ({"index_type": "IVF_HNSW_SQ"}, tuple(_LANCE_HNSW)),
            ({"index_type": None}, ({},)),
        ),
        environment={"LANCE_CPU_THREADS": "2"},
    ),
    Rival(
        "torch",
        "torch_exact",
        (TORCH, NUMPY),
        (({}, ({"block": 1 << 16}, {"block": 1 << 13})),),
        # 512 bytes a token, all of them in memory.
        most_tokens=16_000_000,
    ),
)

KERNELS = Rival(
    "kernels",
    "kernels",
    (f"{COLRANK}[cpu]", TORCH, NUMPY, "maxsim-cpu==0.1.0", "fast-maxsim==0.2.0"),
    (),
)

NOT_INSTALLABLE = (("TACHIOM", "not installable as a package alone; published figures stand beside"),)
"""Engines without figures of our own, and what the table says of them."""
