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
        variant: its settings; `name` shows what differs from the defaults.
        bytes: of all files; `vector_bytes` of these are tokens, centroids and postings.
        bytes_per_token, bytes_per_passage: of all files.
        times_single: vector bytes against one float32 vector a passage of the same model.
        extrapolated: bytes by number of passages.
        squared_error: of the codec on tokens that its training did not see; None for whole vectors.
        agreement: recall of float32 exact's best documents, by cut (`recall@10`, `recall@100`).
        rank_correlation: Spearman's, over float32 exact's best 100 documents.
        judged: means of nDCG@10 and RR@10; None without judgements.
        loss: of quality against float32 exact; p is corrected for the number of variants (Holm).
        median_ms, p95_ms: of single queries.
        resident: bytes of its files that searching left in memory; None where the system does not say.
        on_front: whether no other variant gives as much for fewer bytes.
    """

    name: str
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
        bytes_per_passage: of its index, without the text that every system keeps.
        quality: mean nDCG@10.
        median_ms: a query, reranking included.
        variant, reranker: names of what it is made of, "" for none.
    """

    name: str
    bytes_per_passage: float
    quality: Estimate
    median_ms: float
    variant: str = ""
    reranker: str = ""


@dataclass(frozen=True)
class Comparison:
    """Storage against precision on one corpus.

    Attributes:
        model: its name.
        documents, passages, tokens: of the corpus, tokens before pooling.
        queries: how many; `drawn` says whether they are sentences of the passages.
        measure: what quality is: nDCG@10 with judgements, else recall@10 of float32 exact.
        k: hits of the timed searches.
        rows: the reference first.
        baselines: other systems, where asked for.
        recommended: name of the variant for the budget.
        sentence: why.
        warnings: what to know.
    """

    model: str
    documents: int
    passages: int
    tokens: int
    queries: int
    drawn: bool
    measure: str
    k: int
    rows: list[Row]
    baselines: list[Baseline]
    recommended: str
    sentence: str
    warnings: list[str]

    def row(self, name: str) -> Row:
        """The row of a variant by its name."""
        return next(row for row in self.rows if row.name == name)

    @property
    def table(self) -> pa.Table:
        """One row a variant; intervals are `_low` and `_high`."""
        return pa.Table.from_pylist([_flat(row, row.name == self.recommended) for row in self.rows])

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            **{name: value for name, value in self.__dict__.items() if name not in ("rows", "baselines")},
            "rows": [
                {**asdict(row), "extrapolated": {str(k): v for k, v in row.extrapolated.items()}}
                for row in self.rows
            ],
            "baselines": [asdict(baseline) for baseline in self.baselines],
        }

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
        return f"Comparison({self.model!r}, variants={len(self.rows)}, recommended={self.recommended!r})"


def _flat(row: Row, recommended: bool) -> dict[str, Any]:
    flat: dict[str, Any] = {"name": row.name, **asdict(row.variant)}
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
