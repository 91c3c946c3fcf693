"""Recall@10 against what it costs: time of a query, and bytes of a token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from measured import GOALS, Row

AXES = (
    ("median_ms", "median ms a query, two threads"),
    ("bytes_per_token", "bytes a token on disk"),
)


def plot(rows: Sequence[Row], path: Path, title: str) -> None:
    """Write a picture: one colour a rival, its best settings joined."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(AXES), figsize=(13, 5.5), sharey=True)
    for axis, (name, label) in zip(axes, AXES, strict=True):
        for rival in dict.fromkeys(row["rival"] for row in rows):
            points = sorted((row[name], row["recall@10"]) for row in rows if row["rival"] == rival)
            drawn = axis.scatter(*zip(*points, strict=True), s=18, alpha=0.7, label=rival)
            axis.step(*zip(*_front(points), strict=True), where="post", color=drawn.get_facecolor()[0], lw=1)
        for goal in GOALS:
            axis.axhline(goal, color="grey", lw=0.5, ls=":")
        axis.set_xscale("log")
        axis.set_xlabel(label)
        axis.grid(alpha=0.2)
    axes[0].set_ylabel("recall@10 of float32 exact")
    axes[0].legend(loc="lower right", fontsize=8)
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points that no cheaper one reaches."""
    kept: list[tuple[float, float]] = []
    for cost, recall in points:
        if not kept or recall > kept[-1][1]:
            kept.append((cost, recall))
    return kept
