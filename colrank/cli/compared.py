"""How a comparison is shown to people."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.table import Table
from rich.text import Text

from colrank.cli.render import one_line, plain_console
from colrank.compare import Comparison, Row
from colrank.compare.page import said
from colrank.types import human_bytes

_FILE_WIDTH = 120
"""Columns of a file or pipe, which has no width of its own: no number is cut there."""


def print_comparison(found: Comparison) -> None:
    """The variants, other systems, and what it means."""
    console = plain_console()
    if not console.is_terminal:
        console.width = max(console.width, _FILE_WIDTH)
    first, sentence, *rest = said(found)
    console.print(one_line(first), soft_wrap=True)
    console.print(*_bytes(found), sep="\n")
    console.print()
    console.print(*_quality(found), sep="\n")
    if found.baselines:
        others = Table(box=None, pad_edge=False)
        others.add_column("system")
        for name in ("B/passage, no text", found.measure, "interval", "ms"):
            others.add_column(name, justify="right", no_wrap=True)
        for baseline in found.baselines:
            quality = baseline.quality
            others.add_row(
                one_line(baseline.name),
                f"{baseline.bytes_per_passage:,.0f}",
                f"{quality.mean:.4f}",
                f"{quality.low:.4f} {quality.high:.4f}",
                f"{baseline.median_ms:,.1f}",
            )
        console.print()
        console.print(others)
    console.print()
    for text in rest:
        console.print(Text(one_line(text), style="dim"), soft_wrap=True)
    console.print(Text(one_line(sentence), style="green"), soft_wrap=True)


def _tables(found: Comparison, heads: Sequence[str], cells: Callable[[Row], Sequence[str]]) -> list[Table]:
    """One a model: names of models in front of those of variants would leave numbers no room."""
    tables = []
    for model in found.models:
        title = one_line(model.label) if len(found.models) > 1 else None
        table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
        table.add_column("variant", no_wrap=True)
        for name in heads:
            table.add_column(name, justify="right", no_wrap=True)
        for row in found.rows:
            if row.model != model.label:
                continue
            style = "bold green" if row.name == found.recommended else "bold" if row.on_front else ""
            name = row.variant.name
            table.add_row(f"{name}{' *' if row.on_front else ''}", *cells(row), style=style)
        tables.append(table)
    return tables


def _bytes(found: Comparison) -> list[Table]:
    sizes = [f"at {passages / 1e6:g}M" for passages in found.rows[0].extrapolated]
    return _tables(
        found,
        ["B/token", "B/passage", "x single", *sizes, "error", "resident"],
        lambda row: [
            f"{row.bytes_per_token:,.1f}",
            f"{row.bytes_per_passage:,.0f}",
            f"{row.times_single:,.1f}",
            *(human_bytes(size) for size in row.extrapolated.values()),
            "" if row.squared_error is None else f"{row.squared_error:.4f}",
            "" if row.resident is None else human_bytes(row.resident),
        ],
    )


def _quality(found: Comparison) -> list[Table]:
    judged = ["nDCG@10"] if found.rows[0].judged else []
    return _tables(
        found,
        ["recall@10", "@100", *judged, "loss", "interval", "p", "ms", "p95"],
        lambda row: [
            f"{row.agreement['recall@10'].mean:.3f}",
            f"{row.agreement['recall@100'].mean:.3f}",
            *(f"{row.judged[name].mean:.4f}" for name in judged if row.judged),
            f"{row.loss.mean:+.4f}",
            f"{row.loss.low:+.4f} {row.loss.high:+.4f}",
            f"{row.p:.2f}",
            f"{row.median_ms:,.0f}",
            f"{row.p95_ms:,.0f}",
        ],
    )
