"""How an evaluation is shown to people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from colrank.cli.judged_cascade import print_cascade
from colrank.cli.render import plain_console
from colrank.evaluate import Evaluation, Failure, StageResult

_REFERENCES = ("float32 exact,", "full scan,")


def print_evaluation(found: Evaluation, *, failures: bool) -> None:
    """Measures with their intervals, the comparison, the stages, how many queries failed, and warnings."""
    console = plain_console()
    for warning in found.warnings:
        console.print(Text(f"Warning: {_plain(warning)}", style="yellow"), soft_wrap=True)
    console.print(
        f"Judged {found.queries:,} queries, the best {found.depth:,} documents of each; intervals hold 95%.",
        soft_wrap=True,
    )
    console.print(_measures(found))
    if found.stages is not None:
        console.print()
        console.print(_stages(found.stages))
        console.print()
        console.print(_kept(found.stages))
    if found.cascade is not None:
        console.print()
        print_cascade(console, found.cascade)
    console.print()
    console.print(_failed(found, listed=failures), soft_wrap=True)
    if failures and found.failures:
        console.print(_failures(found.failures))


def _table(texts: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in texts:
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _measures(found: Evaluation) -> Table:
    compared = found.comparison
    columns = ["mean", "interval"]
    table = _table(
        ["measure"], columns if compared is None else [*columns, "baseline", "better by", "interval", "p"]
    )
    for name, mean in found.means.items():
        cells = [name, f"{mean:.4f}", _interval(*found.intervals[name])]
        if compared is not None:
            paired = compared[name]
            cells += [
                f"{paired.baseline:.4f}",
                f"{paired.difference:+.4f}",
                _interval(paired.low, paired.high, "+"),
                f"{paired.p:.4f}",
            ]
        table.add_row(*cells)
    return table


def _stages(stages: Sequence[StageResult]) -> Table:
    table = _table(["stage"], ["nDCG@10", "loss", "interval", "R@10", "R@100"])
    for stage in stages:
        lost = between = ""
        if stage.loss is not None and stage.low is not None and stage.high is not None:
            lost, between = f"{stage.loss:+.4f}", _interval(stage.low, stage.high, "+")
        means = [f"{stage.means[name]:.4f}" for name in ("nDCG@10", "R@10", "R@100")]
        table.add_row(stage.name, means[0], lost, between, *means[1:])
    return table


def _kept(stages: Sequence[StageResult]) -> Table:
    references = ["best 10", "best 100"]
    table = _table(["documents kept of"], [f"{name}\n{best}" for name in _REFERENCES for best in references])
    for stage in stages:
        shares = [*stage.of_exact.values(), *stage.of_full.values()]
        table.add_row(stage.name, *(f"{share:.4f}" for share in shares))
    return table


def _failed(found: Evaluation, *, listed: bool) -> str:
    if not found.failures:
        return "Every query has a relevant document among the best 10."
    never = sum(failure.rank is None for failure in found.failures)
    told = (
        f"{len(found.failures):,} of {found.queries:,} queries have no relevant document among the best 10: "
        f"{never:,} never retrieved (not among {found.depth:,} either), "
        f"{len(found.failures) - never:,} retrieved but ranked low"
    )
    return f"{told}:" if listed else f"{told} (--failures lists them)."


def _failures(failures: Sequence[Failure]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("rank", justify="right", no_wrap=True)
    for name in ("query", "text", "relevant", "found first"):
        table.add_column(name, overflow="fold")
    for failure in failures:
        more = f" and {len(failure.relevant) - 1} more" if len(failure.relevant) > 1 else ""
        table.add_row(
            "never" if failure.rank is None else str(failure.rank),
            *map(
                Text,
                map(_plain, (failure.query, failure.text, f"{failure.relevant[0]}{more}", failure.found)),
            ),
        )
    return table


def _interval(low: float, high: float, sign: str = "") -> str:
    return f"{low:{sign}.4f} {high:{sign}.4f}"


def _plain(text: str) -> str:
    """The text on one line, without characters that could steer the terminal."""
    return "".join(character if character.isprintable() else " " for character in text)
