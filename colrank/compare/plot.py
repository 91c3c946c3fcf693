"""The picture of a comparison: bytes against quality, and time against quality."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colrank.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from colrank.compare.result import Comparison, Estimate

_LONG_NAME = 46
"""Letters of a name that has room in a third of the legend."""

_POINT, _FRONT, _CHOSEN, _OTHER = "#8a8f98", "#1f5fa8", "#c2410c", "#6b7280"
_LINE = 0.165
"""Inches of a line of the legend."""

# Colours that the colour-blind tell apart (Okabe and Ito), and a shape for each with its sign in text.
_MODELS = (
    ("#0072b2", "o", "\u25cf"),
    ("#d55e00", "s", "\u25a0"),
    ("#009e73", "D", "\u25c6"),
    ("#aa3377", "v", "\u25bc"),
    ("#8a6d00", "P", "\u271a"),
    ("#333333", "*", "\u2605"),
)


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
    points = _points(found)
    deep = -(-len(points) // _columns(points))
    below = _LINE * (deep + 2)
    figure = Figure(figsize=(12, 5.3 + below), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=(5.3, below))
    panels, legend = halves
    left, right = panels.subplots(1, 2, sharey=True)
    _panel(left, points, [point.bytes for point in points], front=True)
    left.set_xlabel(f"bytes a {_unit(found)}, all files (log scale)")
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
    _write_legend(legend, found, points, (low, high))
    panels.suptitle(_title(found), fontsize=11, x=0.01, ha="left")
    return figure


def _title(found: Comparison) -> str:
    first = found.models[0]
    how = "sentences drawn from the passages" if found.drawn else "judged queries"
    size = f"{first.passages:,} passages" if found.same_passages else f"{first.documents:,} documents"
    return f"{found.model_names}: {size}, {found.queries:,} {how}"


def _unit(found: Comparison) -> str:
    """What bytes are shown a piece of: models that split documents differently compare by document only."""
    return "passage" if found.same_passages else "document"


@dataclass(frozen=True, slots=True)
class _Point:
    number: int
    name: str
    bytes: float
    milliseconds: float
    quality: Estimate
    color: str
    face: str
    edge: str
    marker: str
    chosen: bool
    on_front: bool


def _points(found: Comparison) -> list[_Point]:
    """Variants by bytes, then other systems; the recommended variant stands among the first only."""
    looks = {
        model.label: (color, marker)
        for model, (color, marker, _) in zip(found.models, itertools.cycle(_MODELS), strict=False)
    }
    pieces = {
        model.label: max(1, model.passages if found.same_passages else model.documents)
        for model in found.models
    }
    several = len(found.models) > 1
    points = []
    for number, row in enumerate(sorted(found.rows, key=lambda row: (row.bytes, row.name)), 1):
        chosen = row.name == found.recommended
        color, marker = looks[row.model]
        if not several:
            color = _CHOSEN if chosen else _FRONT if row.on_front else _POINT
            marker = "D" if chosen else "o"
        points.append(
            _Point(
                number,
                f"{row.name} (recommended)" if chosen else row.name,
                row.bytes / pieces[row.model],
                row.median_ms,
                row.quality(found.measure),
                color,
                "white" if several and not row.on_front else color,
                "black" if several and chosen else color,
                marker,
                chosen,
                row.on_front,
            )
        )
    return points + _systems(found, pieces, len(points))


def _systems(found: Comparison, pieces: Mapping[str, int], before: int) -> list[_Point]:
    """Other systems, with the text that every system keeps; `before` is the number of points so far."""
    points: list[_Point] = []
    for baseline in found.baselines:
        if baseline.variant and not baseline.reranker:
            continue
        rows = [row for row in found.rows if row.model == baseline.model]
        text = max(row.bytes - row.vector_bytes for row in rows)
        size = baseline.bytes_per_passage * found.model(baseline.model).passages + text
        points.append(
            _Point(
                before + len(points) + 1,
                baseline.name,
                size / pieces[baseline.model],
                baseline.median_ms,
                baseline.quality,
                color=_OTHER,
                face=_OTHER,
                edge=_OTHER,
                marker="^",
                chosen=False,
                on_front=False,
            )
        )
    return points


def _range(found: Comparison) -> tuple[float, float]:
    """The stretch of quality that the variants take; what lies beyond is named in the legend."""
    held = [row.quality(found.measure) for row in found.rows]
    low, high = min(each.low for each in held), max(each.high for each in held)
    room = 0.08 * (high - low or 0.1)
    return max(low - 2 * room, min(low, 0) - room / 4), high + room


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
            markersize=9 if point.chosen else 6,
            color=point.color,
            markerfacecolor=point.face,
            markeredgecolor=point.edge,
            markeredgewidth=1.6 if point.edge != point.color else 1.0,
            ecolor=point.color,
            elinewidth=0.8,
            capsize=2,
            zorder=3 if point.chosen else 2,
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


def _write_legend(
    figure: Any, found: Comparison, points: Sequence[_Point], panels: tuple[float, float]
) -> None:
    """Number and name of every point, in columns; what lies beyond the panels says how far."""
    columns = _columns(points)
    deep = -(-len(points) // columns)
    step = 1 / (deep + 2)  # two more lines: room, and what the looks mean
    for at, point in enumerate(points):
        column, line = divmod(at, deep)
        mean = point.quality.mean
        side = "below" if mean < panels[0] else "above" if mean > panels[1] else ""
        beyond = f" ({mean:.3f}, {side} the picture)" if side else ""
        figure.text(
            0.03 + column * 0.96 / columns,
            1 - (line + 0.3) * step,
            f"{point.number}  {point.name}{beyond}",
            fontsize=8.5,
            color=point.color,
            va="top",
            fontweight="bold" if point.on_front else "normal",
        )
    figure.text(0.03, 0.3 * step, _looks(found), fontsize=8, color=_OTHER)


def _columns(points: Sequence[_Point]) -> int:
    """Columns of the legend in which names do not run into each other."""
    return 3 if max(len(point.name) for point in points) <= _LONG_NAME else 2


def _looks(found: Comparison) -> str:
    """What the looks of a point mean."""
    if len(found.models) == 1:
        return "Bold: on the front. Triangles: other systems."
    signs = zip(found.models, itertools.cycle(_MODELS), strict=False)
    named = "   ".join(f"{sign} {model.label}" for model, (_, _, sign) in signs)
    ring = "Filled, bold: on the front. Black rim: recommended. Triangles: other systems."
    return f"{named}.   {ring}"
