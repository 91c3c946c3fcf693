"""Rerankers: models that read the query with each text."""

from colrank.rerankers.base import LOGIT, MAXSIM, Reranked, Reranker, sigmoid
from colrank.rerankers.registry import load_reranker

__all__ = ["LOGIT", "MAXSIM", "Reranked", "Reranker", "load_reranker", "sigmoid"]
