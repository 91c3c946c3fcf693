"""What a comparison says: one row a variant, the front, a recommendation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from colrank.compare.front import Offer
from colrank.compare.variants import Variant

JUDGED = ("nDCG@10", "RR@10")
"""What is judged; variants are compared by the first."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over queries and its 95% bootstrap interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Row:
    """One variant, measured.

    Attributes:
        name: unique; where there are several models it begins with the model's.
        model: label of its model (`ModelCorpus`).
        variant: its settings; their name shows what differs from the defaults.
        bytes: of all files; `vector_bytes` of these are tokens, centroids and postings.
        bytes_per_token, bytes_per_passage: of all files.
        times_single: vector bytes against one float32 vector a passage of the same model.
        extrapolated: bytes by number of passages.
        squared_error: of the codec on tokens that its training did not see; None for whole vectors.
        agreement: recall of the best documents of its own model's float32 exact, by cut (`recall@10`,
            `recall@100`).
        rank_correlation: Spearman's, over the best 100 documents of the same.
        judged: means of nDCG@10 and RR@10; None without judgements.
        loss: of quality against the comparison's reference; p is corrected for the number of rows (Holm).
        median_ms, p95_ms: of single queries.
        resident: bytes of its files that searching left in memory; None where the system does not say.
        on_front: whether no other variant gives as much for fewer bytes.
    """

    name: str
    model: str
    variant: Variant
    bytes: int
    vector_bytes: int
    bytes_per_token: float
    bytes_per_passage: float
    times_single: float
    extrapolated: Mapping[int, int]
    squared_error: float | None
    agreement: Mapping[str, Estimate]
    rank_correlation: float
    judged: Mapping[str, Estimate] | None
    loss: Estimate
    p: float
    median_ms: float
    p95_ms: float
    resident: int | None
    on_front: bool = False

    def quality(self, measure: str) -> Estimate:
        """What variants are compared by."""
        return self.judged[measure] if self.judged is not None else self.agreement[measure]

    def offer(self, measure: str) -> Offer:
        """What it costs and gives."""
        return Offer(
            self.name,
            self.bytes_per_passage,
            self.bytes,
            self.quality(measure).mean,
            self.loss.mean,
            self.loss.high,
            self.median_ms,
        )


@dataclass(frozen=True, slots=True)
class Baseline:
    """Another way to search the same passages, or the recommended variant beside them.

    Attributes:
        name: how it is shown.
        model: label of the model whose passages it searches.
        bytes_per_passage: of its index, without the text that every system keeps.
        quality: mean nDCG@10.
        median_ms: a query, reranking included.
        variant, reranker: names of what it is made of, "" for none.
    """

    name: str
    model: str
    bytes_per_passage: float
    quality: Estimate
    median_ms: float
    variant: str = ""
    reranker: str = ""


@dataclass(frozen=True, slots=True)
class ModelCorpus:
    """The corpus as one model splits and encodes it.

    Attributes:
        label: what rows and baselines call the model.
        name: the model's full name.
        dim: of its vectors.
        documents, passages, tokens: how many, tokens before pooling.
        encoded: whether it was encoded by this run; else its vectors were in the cache.
    """

    label: str
    name: str
    dim: int
    documents: int
    passages: int
    tokens: int
    encoded: bool


@dataclass(frozen=True)
class Comparison:
    """Storage against precision on one corpus.

    Attributes:
        models: one or several, in the order in which they were given.
        queries: how many; `drawn` says whether they are sentences of the passages.
        measure: what quality is: nDCG@10 with judgements, else recall@10 of float32 exact.
        k: hits of the timed searches.
        rows: every variant of every model, float32 exact first of each.
        reference: name of the row that losses are against: float32 exact, of several models the best one's.
        baselines: other systems, where asked for.
        recommended: name of the variant for the budget.
        sentence: why.
        warnings: what to know.
    """

    models: list[ModelCorpus]
    queries: int
    drawn: bool
    measure: str
    k: int
    rows: list[Row]
    reference: str
    baselines: list[Baseline]
    recommended: str
    sentence: str
    warnings: list[str]

    def row(self, name: str) -> Row:
        """The row of a variant by its name."""
        return next(row for row in self.rows if row.name == name)

    def model(self, label: str) -> ModelCorpus:
        """A model by its label."""
        return next(model for model in self.models if model.label == label)

    @property
    def model_names(self) -> str:
        """Names of all models."""
        return ", ".join(model.name for model in self.models)

    @property
    def same_passages(self) -> bool:
        """Whether all models split the documents into as many passages: bytes a passage compare then."""
        return len({model.passages for model in self.models}) == 1

    @property
    def table(self) -> pa.Table:
        """One row a variant; intervals are `_low` and `_high`."""
        return pa.Table.from_pylist([_flat(row, row.name == self.recommended) for row in self.rows])

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            **self.__dict__,
            "models": [asdict(model) for model in self.models],
            "rows": [
                {**asdict(row), "extrapolated": {str(k): v for k, v in row.extrapolated.items()}}
                for row in self.rows
            ],
            "baselines": [asdict(baseline) for baseline in self.baselines],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Comparison:
        """The inverse of `to_json`: what was kept can be shown and drawn again."""
        return cls(
            **{
                **values,
                "models": [ModelCorpus(**model) for model in values["models"]],
                "rows": [_row(row) for row in values["rows"]],
                "baselines": [
                    Baseline(**{**each, "quality": Estimate(**each["quality"])})
                    for each in values["baselines"]
                ],
            }
        )

    def to_markdown(self) -> str:
        """The table for a page."""
        from colrank.compare.page import markdown

        return markdown(self)

    def to_html(self, path: str | Path) -> None:
        """A report in one file, with the plot inside."""
        from colrank.compare.page import html

        Path(path).write_text(html(self), encoding="utf-8")

    def plot(self, path: str | Path) -> None:
        """Draw bytes a passage against quality, and against time; the file's ending says the format.

        Raises:
            MissingExtra: matplotlib is not installed.
            InputError: the file cannot be written, or is of an unknown format.
        """
        from colrank.compare.plot import draw

        draw(self, Path(path))

    def save(self, path: str | Path) -> None:
        """Write `to_json` to a file."""
        Path(path).write_text(
            json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )

    def __repr__(self) -> str:
        models, rows = self.model_names, len(self.rows)
        return f"Comparison({models!r}, variants={rows}, recommended={self.recommended!r})"


def _row(values: Mapping[str, Any]) -> Row:
    judged = values["judged"]
    return Row(
        **{
            **values,
            "variant": Variant(**values["variant"]),
            "extrapolated": {int(passages): size for passages, size in values["extrapolated"].items()},
            "agreement": _estimates(values["agreement"]),
            "judged": None if judged is None else _estimates(judged),
            "loss": Estimate(**values["loss"]),
        }
    )


def _estimates(values: Mapping[str, Any]) -> dict[str, Estimate]:
    return {name: Estimate(**estimate) for name, estimate in values.items()}


def _flat(row: Row, recommended: bool) -> dict[str, Any]:
    flat: dict[str, Any] = {"name": row.name, "model": row.model, **asdict(row.variant)}
    flat |= {
        "bytes": row.bytes,
        "vector_bytes": row.vector_bytes,
        "bytes_per_token": row.bytes_per_token,
        "bytes_per_passage": row.bytes_per_passage,
        "times_single": row.times_single,
        **{f"bytes_of_{passages}_passages": size for passages, size in row.extrapolated.items()},
        "squared_error": row.squared_error,
        "rank_correlation": row.rank_correlation,
    }
    estimates = {**row.agreement, **(row.judged or {}), "loss": row.loss}
    for name, estimate in estimates.items():
        flat |= {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return flat | {
        "loss_p": row.p,
        "median_ms": row.median_ms,
        "p95_ms": row.p95_ms,
        "resident": row.resident,
        "on_front": row.on_front,
        "recommended": recommended,
    }
