"""The judge of quality: queries with known answers in, measures, intervals and failures out."""

from colrank.evaluate.cascade_result import CandidateCount, CascadeResult, CascadeStage
from colrank.evaluate.evaluation import Evaluation, evaluate
from colrank.evaluate.intervals import Paired, bootstrap_interval, paired
from colrank.evaluate.judgements import read_qrels, read_queries
from colrank.evaluate.measures import MEASURES, Failure, evaluate_run, failures
from colrank.evaluate.originals import Originals
from colrank.evaluate.runs import read_run, write_run
from colrank.evaluate.stages import StageResult, exact_documents

__all__ = [
    "MEASURES",
    "CandidateCount",
    "CascadeResult",
    "CascadeStage",
    "Evaluation",
    "Failure",
    "Originals",
    "Paired",
    "StageResult",
    "bootstrap_interval",
    "evaluate",
    "evaluate_run",
    "exact_documents",
    "failures",
    "paired",
    "read_qrels",
    "read_queries",
    "read_run",
    "write_run",
]
