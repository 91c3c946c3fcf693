"""A comparison as Markdown and as one HTML file."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING

from colrank.errors import MissingExtra
from colrank.types import human_bytes

if TYPE_CHECKING:
    from colrank.compare.result import Comparison, Estimate, Row

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1f24; }
body { margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #dfe3e8; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
tr.front td:first-child { font-weight: 600; }
tr.chosen { background: #fff3ea; }
img { max-width: 100%; height: auto; }
.scroll { overflow-x: auto; }
.note { color: #57606a; }
"""


def columns(found: Comparison) -> list[str]:
    """Headings of the table."""
    return [
        "variant",
        "bytes a token",
        "bytes a passage",
        "x single vector",
        *(f"at {passages / 1e6:g}M passages" for passages in found.rows[0].extrapolated),
        "squared error",
        "recall@10",
        "recall@100",
        "rank corr.",
        *(found.rows[0].judged or ()),
        f"loss of {found.measure}",
        "p",
        "ms",
        "p95 ms",
        "resident",
    ]


def cells(row: Row) -> list[str]:
    """The table's cells of a variant."""
    mark = " *" if row.on_front else ""
    return [
        f"{row.name}{mark}",
        f"{row.bytes_per_token:,.1f}",
        f"{row.bytes_per_passage:,.0f}",
        f"{row.times_single:,.1f}",
        *(human_bytes(size) for size in row.extrapolated.values()),
        "" if row.squared_error is None else f"{row.squared_error:.4f}",
        f"{row.agreement['recall@10'].mean:.4f}",
        f"{row.agreement['recall@100'].mean:.4f}",
        f"{row.rank_correlation:.4f}",
        *(between(estimate) for estimate in (row.judged or {}).values()),
        f"{row.loss.mean:+.4f} ({row.loss.low:+.4f} to {row.loss.high:+.4f})",
        f"{row.p:.3f}",
        f"{row.median_ms:,.1f}",
        f"{row.p95_ms:,.1f}",
        "" if row.resident is None else human_bytes(row.resident),
    ]


def between(estimate: Estimate) -> str:
    """A mean with its interval."""
    return f"{estimate.mean:.4f} ({estimate.low:.4f} to {estimate.high:.4f})"


def said(found: Comparison) -> list[str]:
    """What stands around the table, a sentence each."""
    several = len(found.models) > 1
    against = f"against {found.reference}" if several else "against float32 exact"
    out = [
        _subject(found),
        found.sentence,
        "A star marks the front: no other variant gives as much for fewer bytes. Losses are "
        f"{against} on the same queries, their p corrected for the number of variants; intervals hold 95%.",
    ]
    if several:
        out.append(
            "Recall and rank correlation are against each model's own float32 exact: they tell what storage "
            "costs a model, not which model is better."
        )
        if found.baselines:
            out.append(f"BM25 searches the passages of {found.models[0].label}.")
    if not found.same_passages:
        out.append(
            "The models split the documents into different numbers of passages, so that bytes a passage do "
            "not compare: the front and the recommendation go by the bytes of all files."
        )
    if found.drawn:
        out.append(
            "What is measured is agreement with float32 exact, not relevance: give judged queries for that."
        )
    return out + found.warnings


def _subject(found: Comparison) -> str:
    how = (
        "sentences drawn from the passages, whose words were taken out of these" if found.drawn else "queries"
    )
    asked = f"{found.queries:,} {how}"
    first, *others = found.models
    if not others:
        return (
            f"{first.documents:,} documents, {first.passages:,} passages, {first.tokens:,} tokens; {asked}. "
            f"Model {first.name}."
        )
    sizes = " ".join(
        f"Model {each.name}: {each.passages:,} passages, {each.tokens:,} tokens of {each.dim} dimensions."
        for each in found.models
    )
    return f"{first.documents:,} documents; {asked}. {sizes}"


def markdown(found: Comparison) -> str:
    """The table and what it says, in Markdown."""
    heads = columns(found)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in found.rows:
        held = cells(row)
        if row.name == found.recommended:
            held[0] = f"**{held[0]}**"
        lines.append("| " + " | ".join(held) + " |")
    if found.baselines:
        lines += [
            "",
            f"| system | bytes a passage, without text | {found.measure} | ms |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {b.name} | {b.bytes_per_passage:,.0f} | {between(b.quality)} | {b.median_ms:,.1f} |"
            for b in found.baselines
        ]
    first, *rest = said(found)
    return "\n".join([first, "", *lines, "", *(f"{sentence}\n" for sentence in rest)])


def html(found: Comparison) -> str:
    """One page that needs nothing else: the table, the sentences and, with matplotlib, the plot."""
    rows = []
    for row in found.rows:
        names = [
            name for name, on in (("front", row.on_front), ("chosen", row.name == found.recommended)) if on
        ]
        held = "".join(f"<td>{escape(cell)}</td>" for cell in cells(row))
        rows.append(f'<tr class="{" ".join(names)}">{held}</tr>')
    heads = "".join(f"<th>{escape(name)}</th>" for name in columns(found))
    others = ""
    if found.baselines:
        lines = "".join(
            f"<tr><td>{escape(b.name)}</td><td>{b.bytes_per_passage:,.0f}</td><td>{between(b.quality)}</td>"
            f"<td>{b.median_ms:,.1f}</td></tr>"
            for b in found.baselines
        )
        others = (
            "<h2>Other systems on the same passages</h2><table><thead><tr><th>system</th>"
            f"<th>bytes a passage, without text</th><th>{escape(found.measure)}</th><th>ms</th></tr></thead>"
            f"<tbody>{lines}</tbody></table>"
        )
    first, recommendation, *rest = said(found)
    notes = "".join(f'<p class="note">{escape(sentence)}</p>' for sentence in rest)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Storage against precision: {escape(found.model_names)}</title>"
        f"<style>{_STYLE}</style></head><body>"
        f"<h1>Storage against precision</h1><p>{escape(first)}</p>"
        f"<p><strong>{escape(recommendation)}</strong></p>"
        f'{_image(found)}<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}'
        f"</tbody></table></div>{others}{notes}</body></html>\n"
    )


def _image(found: Comparison) -> str:
    from colrank.compare.plot import picture

    try:
        figure = picture(found)
    except MissingExtra:
        return ""
    held = io.BytesIO()
    figure.savefig(held, format="png", dpi=130)
    data = base64.b64encode(held.getvalue()).decode("ascii")
    shown = f"Bytes a passage and milliseconds a query against {escape(found.measure)}"
    return f'<img alt="{shown}" src="data:image/png;base64,{data}">'
