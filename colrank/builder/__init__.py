"""From documents to a committed segment: spool, split, encode, pool, train, code, commit."""

from colrank.builder.documents import build_from_documents, build_from_vectors
from colrank.builder.progress import Progress, Silent
from colrank.builder.vectors import GivenVectors, check_vectors

__all__ = [
    "GivenVectors",
    "Progress",
    "Silent",
    "build_from_documents",
    "build_from_vectors",
    "check_vectors",
]
