"""Storage against precision on the user's own corpus."""

from colrank.compare.bases import Base, cache_folder
from colrank.compare.build import Centroids, build_variant
from colrank.compare.corpus import compare_corpus
from colrank.compare.front import Budget
from colrank.compare.models import model_place
from colrank.compare.result import Baseline, Comparison, Estimate, ModelCorpus, Row
from colrank.compare.variants import Variant

__all__ = [
    "Base",
    "Baseline",
    "Budget",
    "Centroids",
    "Comparison",
    "Estimate",
    "ModelCorpus",
    "Row",
    "Variant",
    "build_variant",
    "cache_folder",
    "compare_corpus",
    "model_place",
]
