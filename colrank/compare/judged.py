"""The queries that a comparison is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from colrank.errors import InputError
from colrank.evaluate.evaluation import known_judgements, told
from colrank.evaluate.judgements import Qrels, judged_queries, judgements
from colrank.types import Problems


@dataclass(frozen=True, slots=True)
class JudgedQueries:
    """Queries with known answers.

    Attributes:
        inputs: text or vectors by id.
        qrels: their judgements.
        warnings: what was left out.
    """

    inputs: dict[str, Any]
    qrels: Qrels
    warnings: list[str]

    @property
    def texts(self) -> bool:
        """Whether every query is text."""
        return all(isinstance(value, str) for value in self.inputs.values())


def read_judged(
    queries: Mapping[str, Any] | str | Path, qrels: Any, sample: int | None, seed: int
) -> JudgedQueries:
    """Judged queries, at most `sample` of them.

    Raises:
        InputError: they cannot be read, or no query has a judgement.
    """
    texts = judged_queries(queries)
    problems = Problems()
    judged = known_judgements(texts, judgements(qrels), problems)
    warnings = told(problems)
    names = list(judged)
    if sample is not None and sample < len(names):
        random = np.random.default_rng(seed)
        names = [names[at] for at in sorted(random.permutation(len(names))[:sample].tolist())]
        wider = (len(judged) / len(names)) ** 0.5
        warnings.append(
            f"{len(names):,} of {len(judged):,} queries were drawn: intervals are about {wider:.1f} times as "
            "wide as with all of them."
        )
    return JudgedQueries(
        {name: texts[name] for name in names}, {name: judged[name] for name in names}, warnings
    )


def check_several(judged: JudgedQueries | None, of_index: bool) -> None:
    """What several models need.

    Raises:
        InputError: there are no judged queries, or not as text, or an index is compared.
    """
    if of_index:
        raise InputError(
            "An index holds the vectors of one model; name the corpus instead to compare several models."
        )
    if judged is None:
        raise InputError(
            "Several models are compared by judged queries, since agreement with a model's own float32 exact "
            "says nothing about which model is better; give queries and qrels."
        )
    if not judged.texts:
        raise InputError("Several models need queries as text, for each encodes them; give no vectors.")
