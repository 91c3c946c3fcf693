"""The picture of a comparison: bytes against quality, and time against quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colrank.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from colrank.compare.result import Comparison, Estimate

_COLUMNS = 3
_POINT, _FRONT, _CHOSEN, _OTHER = "#8a8f98", "#1f5fa8", "#c2410c", "#6b7280"


def draw(found: Comparison, path: Path) -> None:
    """Draw a comparison into a file: .png, .svg or .pdf.

    Raises:
        MissingExtra: matplotlib is not installed.
        InputError: the file cannot be written, or is of an unknown format.
    """
    figure = picture(found)
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise InputError(f"Cannot draw {path}: {error}.") from error


def picture(found: Comparison) -> Any:
    """The matplotlib Figure of a comparison.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
    except ImportError as error:
        raise MissingExtra(
            "Drawing needs matplotlib; install it with: pip install 'colrank[eval]'."
        ) from error
    # A figure of its own, without pyplot: nothing global is touched, and no display is asked for.
    figure = Figure(figsize=(12, 7), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=(4, 1.3))
    panels, legend = halves
    left, right = panels.subplots(1, 2, sharey=True)
    points = _points(found)
    _panel(left, points, [point.bytes for point in points], front=True)
    left.set_xlabel("bytes a passage, all files (log scale)")
    left.set_ylabel(f"{found.measure}, with 95% bootstrap interval")
    _panel(right, points, [point.milliseconds for point in points], front=False)
    right.set_xlabel("median milliseconds a query (log scale)")
    low, high = _range(found)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(low, high)
        axes.margins(x=0.1)
        axes.grid(visible=True, which="major", alpha=0.25)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.tick_params(axis="x", labelsize=8)
    _write_legend(legend, points, low)
    how = "sentences drawn from the passages" if found.drawn else "judged queries"
    panels.suptitle(
        f"{found.model}: {found.passages:,} passages, {found.queries:,} {how}", fontsize=11, x=0.01, ha="left"
    )
    return figure


@dataclass(frozen=True, slots=True)
class _Point:
    number: int
    name: str
    bytes: float
    milliseconds: float
    quality: Estimate
    color: str
    marker: str
    on_front: bool


def _points(found: Comparison) -> list[_Point]:
    """Variants by bytes, then other systems; the recommended variant stands among the first only."""
    points = []
    for number, row in enumerate(sorted(found.rows, key=lambda row: (row.bytes_per_passage, row.name)), 1):
        chosen = row.name == found.recommended
        points.append(
            _Point(
                number,
                f"{row.name} (recommended)" if chosen else row.name,
                row.bytes_per_passage,
                row.median_ms,
                row.quality(found.measure),
                _CHOSEN if chosen else _FRONT if row.on_front else _POINT,
                "D" if chosen else "o",
                row.on_front,
            )
        )
    rest = max(row.bytes - row.vector_bytes for row in found.rows) / max(1, found.passages)
    for baseline in found.baselines:
        if baseline.variant and not baseline.reranker:
            continue
        number = len(points) + 1
        size = baseline.bytes_per_passage + rest
        points.append(
            _Point(number, baseline.name, size, baseline.median_ms, baseline.quality, _OTHER, "^", False)
        )
    return points


def _range(found: Comparison) -> tuple[float, float]:
    """The stretch of quality that the variants take; what lies far below is named at the edge."""
    held = [row.quality(found.measure) for row in found.rows]
    low, high = min(each.low for each in held), max(each.high for each in held)
    room = 0.08 * (high - low or 0.1)
    return low - 2 * room, high + room


def _panel(axes: Any, points: Sequence[_Point], across: Sequence[float], *, front: bool) -> None:
    if front:
        line = sorted((point.bytes, point.quality.mean) for point in points if point.on_front)
        axes.plot(*zip(*line, strict=True), color=_FRONT, alpha=0.5, linewidth=1.2, zorder=1)
    for place, point in zip(across, points, strict=True):
        quality = point.quality
        axes.errorbar(
            max(place, 1e-3),
            quality.mean,
            yerr=[[quality.mean - quality.low], [quality.high - quality.mean]],
            fmt=point.marker,
            markersize=8 if point.marker == "D" else 6,
            color=point.color,
            ecolor=point.color,
            elinewidth=0.8,
            capsize=2,
            zorder=3 if point.marker == "D" else 2,
        )
        # A number beside the point; its name stands in the legend, where names cannot cover each other.
        axes.annotate(
            str(point.number),
            xy=(max(place, 1e-3), quality.mean),
            xytext=(5, 5 if point.number % 2 else -11),
            textcoords="offset points",
            fontsize=8,
            color=point.color,
            annotation_clip=True,
        )


def _write_legend(figure: Any, points: Sequence[_Point], low: float) -> None:
    """Number and name of every point, in columns; what lies below the panels says how far."""
    deep = -(-len(points) // _COLUMNS)
    for at, point in enumerate(points):
        column, line = divmod(at, deep)
        below = f" ({point.quality.mean:.3f}, below the picture)" if point.quality.mean < low else ""
        figure.text(
            0.03 + column * 0.96 / _COLUMNS,
            0.92 - line * 0.85 / max(deep, 4),
            f"{point.number}  {point.name}{below}",
            fontsize=8.5,
            color=point.color,
            va="top",
            fontweight="bold" if point.on_front else "normal",
        )
    figure.text(0.03, 0.02, "Bold: on the front. Triangles: other systems.", fontsize=8, color=_POINT)
