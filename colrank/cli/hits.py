"""Hits for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from colrank.cli.render import echo_json, one_line, plain_console
from colrank.types import Hit, Hits, Span, Verdict

REFUSED = 3
"""Exit code of a search that the judge refused."""

_SHOWN_CHARACTERS = 420


def hit_record(query: str, query_id: str | None, rank: int, hit: Hit) -> dict[str, Any]:
    """One hit as plain values."""
    record: dict[str, Any] = {"query": query} if query_id is None else {"query_id": query_id, "query": query}
    record |= {
        "rank": rank,
        "id": hit.id,
        "document": hit.document,
        "score": hit.score,
        "scores": dict(hit.scores),
        "title": hit.title,
        "text": hit.text,
        "start": hit.start,
        "end": hit.end,
        "source": hit.source,
        "metadata": dict(hit.metadata),
    }
    if hit.tier:
        record["tier"] = hit.tier
    if hit.unscored:
        record["unscored"] = True
    return record


def echo_hits(hits: Hits, query_id: str | None, *, summary: bool, told: set[str]) -> None:
    """Hits as lines of JSON; with `summary` one more line says what the stages did; warnings not yet told."""
    for rank, hit in enumerate(hits, start=1):
        echo_json(hit_record(hits.query, query_id, rank, hit))
    if summary:
        named = {} if query_id is None else {"query_id": query_id}
        echo_json(
            {
                **named,
                "query": hits.query,
                "hits": len(hits),
                "verdict": hits.verdict and asdict(hits.verdict),
                "left_out": hits.left_out,
                "usage": hits.usage and asdict(hits.usage),
                "timings": hits.timings,
                "warnings": hits.warnings,
            }
        )
    for warning in dict.fromkeys(hits.warnings):
        if warning not in told:
            click.echo(f"Warning: {warning}", err=True)
    told.update(hits.warnings)


def print_hits(hits: Hits, *, several: bool, told: set[str]) -> None:
    """Ranked passages, the words that matched best in bold; what the stages did; warnings not yet told."""
    console = plain_console()
    if several:
        console.print(Text(f"Query: {one_line(hits.query)}", style="bold cyan"))
    for warning in dict.fromkeys(hits.warnings):
        if warning not in told:
            console.print(Text(f"Warning: {one_line(warning)}", style="yellow"), soft_wrap=True)
    told.update(hits.warnings)
    for rank, hit in enumerate(hits, start=1):
        head = Text()
        head.append(f"{rank:>3}  ", style="bold")
        head.append("unscored  " if hit.unscored else f"{hit.score:8.4f}  ", style="green")
        if hit.tier:
            head.append(f"{hit.tier}  ", style="green")
        head.append(one_line(hit.id), style="bold")
        if hit.source and hit.source != hit.document:
            head.append(f"  {one_line(hit.source)}", style="dim")
        if hit.title:
            head.append(f"  {one_line(hit.title)}", style="italic")
        console.print(head, soft_wrap=True)
        console.print(Padding(shown_passage(hit), (0, 0, 0, 6), expand=False))
        console.print()
    if hits.verdict is not None:
        _print_verdict(console, hits.verdict, told)
    if left := _left_out(hits):
        console.print(Text(left, style="dim"), soft_wrap=True)


def _print_verdict(console: Console, verdict: Verdict, told: set[str]) -> None:
    if verdict.fallback:
        console.print(Text(one_line(verdict.fallback), style="bold"), soft_wrap=True)
    style = {"approved": "green", "refused": "red", "unjudged": "yellow"}[verdict.status]
    console.print(Text(f"Judge: {verdict.status}. {verdict.reason}", style=style), soft_wrap=True)
    if verdict.note not in told:
        console.print(Text(f"Note: {verdict.note}", style="dim"), soft_wrap=True)
        told.add(verdict.note)


def _left_out(hits: Hits) -> str:
    """What the stages took out, in one sentence; what merely did not fit into k is no news."""
    names = {
        "judge": "below the judge's floor",
        "unscored": "without a score",
        "dedupe": "repeating a better hit's text",
        "max_per_document": "of a document that has enough passages",
    }
    parts = [f"{len(hits.left_out[key])} {name}" for key, name in names.items() if hits.left_out.get(key)]
    return f"Left out: {', '.join(parts)}." if parts else ""


def shown_passage(hit: Hit, most: int = _SHOWN_CHARACTERS) -> Text:
    """A passage's text on one line, its best words bold; a long one shows the stretch with most of them."""
    start, end = _window(hit.text, hit.highlights, most)
    text = Text()
    at = start
    for span in hit.highlights:
        if span.start < start or span.end > end:
            continue
        text.append(one_line(hit.text[at : span.start]))
        text.append(one_line(hit.text[span.start : span.end]), style="bold")
        at = span.end
    text.append(one_line(hit.text[at:end]))
    if start > 0:
        text = Text("… ") + text
    if end < len(hit.text):
        text.append(" …")
    return text


def _window(text: str, spans: Sequence[Span], most: int) -> tuple[int, int]:
    if len(text) <= most:
        return 0, len(text)
    starts = [0, *(max(0, span.start - 60) for span in spans)]

    def held(start: int) -> int:
        return sum(start <= span.start and span.end <= start + most for span in spans)

    best = max(starts, key=lambda start: (held(start), -start))
    best = min(best, len(text) - most)
    end = best + most
    # Whole words at both ends, where there are any.
    if best > 0 and (space := text.find(" ", best, best + 40)) >= 0:
        best = space + 1
    if end < len(text) and (space := text.rfind(" ", end - 40, end)) >= 0:
        end = space
    return best, end
