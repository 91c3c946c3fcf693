"""colrank: an indexer and search backend for ColBERT-style late interaction.

>>> from colrank import ColRank
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colrank.api import ColRank
    from colrank.candidates import rerank
    from colrank.compare import Comparison
    from colrank.errors import ColRankError
    from colrank.evaluate import Evaluation
    from colrank.lost import Trace
    from colrank.types import BuildReport, Document, Explanation, Hit, Hits, TokenMatch, Verdict

__all__ = [
    "BuildReport",
    "ColRank",
    "ColRankError",
    "Comparison",
    "Document",
    "Evaluation",
    "Explanation",
    "Hit",
    "Hits",
    "TokenMatch",
    "Trace",
    "Verdict",
    "rerank",
]
__version__ = "0.1.0"

_HOMES = {
    "ColRank": "colrank.api",
    "ColRankError": "colrank.errors",
    "Comparison": "colrank.compare",
    "Evaluation": "colrank.evaluate",
    "Trace": "colrank.lost",
    "rerank": "colrank.candidates",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use, so that `import colrank` and `colrank --help` cost no torch.
    if name in __all__:
        return getattr(import_module(_HOMES.get(name, "colrank.types")), name)
    raise AttributeError(f"module 'colrank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
