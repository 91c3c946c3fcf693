"""Rows as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contestants import NOT_INSTALLABLE
from measured import GOALS, Row, fastest

COLUMNS = {
    "rival": "rival",
    "build": "index",
    "search": "search",
    "recall@10": "recall@10",
    "recall@100": "recall@100",
    "nDCG@10": "nDCG@10",
    "median_ms": "median ms",
    "p95_ms": "p95 ms",
    "batch_per_second": "queries/s",
    "bytes_per_token": "bytes a token",
    "anonymous_mb": "anonymous MB",
    "file_backed_mb": "file-backed MB",
    "build_seconds": "build s",
    "build_peak_resident_mb": "build peak MB",
}


def markdown(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """A table of some columns; one that no row has is left out."""
    shown = {name: title for name, title in columns.items() if any(name in each for each in rows)}
    lines = [f"| {' | '.join(shown.values())} |", f"|{'---|' * len(shown)}"]
    lines += [f"| {' | '.join(_cell(each.get(name, '')) for name in shown)} |" for each in rows]
    return "\n".join(lines)


def report(rows: Sequence[Row], failures: Mapping[str, str]) -> str:
    """All settings, then the fastest of each rival for each wanted recall, then who is missing and why."""
    parts = [markdown(rows, COLUMNS)]
    for goal in GOALS:
        found = fastest(rows, goal)
        never = sorted({each["rival"] for each in rows} - {each["rival"] for each in found})
        parts.append(f"Fastest that reaches recall@10 of {goal:g}:")
        parts.append(markdown(found, COLUMNS) if found else "None.")
        if never:
            parts.append(f"With none of the settings: {', '.join(never)}.")
    parts += [f"{name}: {why}." for name, why in NOT_INSTALLABLE]
    parts += [f"{name} FAILED: {why}" for name, why in failures.items()]
    return "\n\n".join(parts)


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(each)}" for name, each in value.items()) or "default"
    return f"{value:g}" if isinstance(value, float) else str(value)
