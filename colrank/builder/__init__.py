"""From documents to a committed generation: spool, split, encode, pool, train, code, delete, compact."""

from colrank.builder.built import Built
from colrank.builder.compaction import Compaction, compact, due, whole
from colrank.builder.deleting import delete_documents
from colrank.builder.documents import build_from_documents, build_from_vectors
from colrank.builder.given import GivenDocuments
from colrank.builder.progress import Progress, Silent
from colrank.builder.vectors import check_vectors

__all__ = [
    "Built",
    "Compaction",
    "GivenDocuments",
    "Progress",
    "Silent",
    "build_from_documents",
    "build_from_vectors",
    "check_vectors",
    "compact",
    "delete_documents",
    "due",
    "whole",
]
