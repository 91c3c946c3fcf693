"""How a judged cascade is shown to people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from colrank.cli.render import one_line
from colrank.evaluate import CascadeResult, Paired

_STYLES = {"worth it": "green", "not worth it": "yellow", "mend the retriever first": "red"}


def print_cascade(console: Console, found: CascadeResult) -> None:
    """The stages side by side, the numbers of candidates, what it costs, and the verdict."""
    for warning in found.warnings:
        console.print(Text(f"Warning: {one_line(warning)}", style="yellow"), soft_wrap=True)
    named = f"reranker {one_line(found.reranker)}, " if found.reranker else ""
    console.print(
        f"The stages after the search: {named}{found.candidates:,} candidates, {found.k:,} in the end. "
        f"{found.measures[0]} of the search is the most that a reranker can reach.",
        soft_wrap=True,
    )
    console.print(_stages(found))
    if found.sweep:
        console.print()
        console.print(_sweep(found))
        if not all(row.measured for row in found.sweep):
            console.print("Milliseconds here are reckoned from the mean time of a pair.")
    if found.beyond is not None:
        console.print(f"{found.beyond:.1%} of the relevant documents found stand beyond rank 50.")
    moved = _moved(found)
    if moved:
        console.print()
        console.print(moved, soft_wrap=True)
    if found.sentence:
        console.print(Text(found.sentence, style=_STYLES[found.verdict]), soft_wrap=True)


def _table(columns: list[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for at, name in enumerate(columns):
        table.add_column(name, justify="right" if at else "left", no_wrap=True)
    return table


def _stages(found: CascadeResult) -> Table:
    table = _table(["stage", *found.measures, "lift", "interval", "p", "ms", "hits"])
    for stage in found.stages:
        means = [f"{stage.means[name]:.4f}" for name in found.measures]
        table.add_row(
            stage.name, *means, *_lift(stage.lift), f"{stage.milliseconds:,.1f}", f"{stage.hits:.1f}"
        )
    return table


def _sweep(found: CascadeResult) -> Table:
    measures = found.measures[1:]
    table = _table(["candidates", "recall", *measures, "lift", "interval", "p", "ms"])
    for row in found.sweep:
        means = [f"{row.means[name]:.4f}" for name in measures]
        table.add_row(
            str(row.candidates), f"{row.ceiling:.4f}", *means, *_lift(row.lift), f"{row.milliseconds:,.1f}"
        )
    return table


def _lift(lift: Paired | None) -> tuple[str, str, str]:
    if lift is None:
        return "", "", ""
    return f"{lift.difference:+.4f}", f"{lift.low:+.4f} {lift.high:+.4f}", f"{lift.p:.4f}"


def _moved(found: CascadeResult) -> str:
    """What reranking costs a query, where it moved the right passage, and what the judge did."""
    parts = []
    if found.reranker:
        tokens = "" if found.tokens is None else f", {found.tokens:,.0f} tokens"
        calls = f", {found.calls:.1f} calls" if found.calls else ""
        price = "" if found.price is None else f", {found.price:,.2f} USD for 1,000 queries"
        cut = f", {found.cut:.1f} of them cut" if found.cut else ""
        parts.append(f"A query costs {found.pairs:,.0f} pairs{cut}{tokens}{calls}{price}.")
    both = [(before, after) for before, after in found.ranks.values() if before is not None]
    up = sum(after is not None and after < before for before, after in both)
    down = sum(after is not None and after > before for before, after in both)
    gone = sum(after is None for _, after in both)
    missing = len(found.ranks) - len(both)
    parts.append(
        f"The best relevant document moved up for {up:,} queries and down for {down:,}, is not among the "
        f"last hits for {gone:,}, and never was among the candidates for {missing:,}."
    )
    if found.refused or found.unjudged:
        parts.append(
            f"The judge refused {found.refused:,} queries, {found.refused_wrongly:,} of them with a relevant "
            f"document among the candidates; {found.unjudged:,} could not be judged."
        )
    return " ".join(parts)
