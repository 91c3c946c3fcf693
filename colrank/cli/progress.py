"""Progress bars on a terminal; silence elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from colrank.types import human_bytes


class _Rate(ProgressColumn):
    """Tokens a second while encoding, bytes a second while reading."""

    def render(self, task: Task) -> Text:
        seconds = task.elapsed or 0.0
        if seconds <= 0:
            return Text("")
        if tokens := task.fields["tokens"]:
            return Text(f"{tokens / seconds:,.0f} tokens/s", style="dim")
        if task.fields["unit"] == "tokens":
            return Text(f"{task.completed / seconds:,.0f} tokens/s", style="dim")
        if task.fields["unit"] == "bytes":
            return Text(f"{human_bytes(task.completed / seconds)}/s", style="dim")
        return Text("")


class Bars:
    """One bar a stage, with its rate and the time left, on standard error when that is a terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description:<8}"),
            BarColumn(bar_width=32),
            TextColumn("{task.percentage:>3.0f}%"),
            _Rate(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task: TaskID | None = None

    def start(self, stage: str, total: int, unit: str) -> None:
        """Show a new bar."""
        self._end()
        self._task = self._bars.add_task(stage, total=max(1, total), tokens=0, unit=unit)

    def advance(self, amount: int, tokens: int = 0) -> None:
        """Move the bar on."""
        if self._task is not None:
            held = self._bars.tasks[-1].fields["tokens"]
            self._bars.update(self._task, advance=amount, tokens=held + tokens)

    def _end(self) -> None:
        if self._task is not None:
            self._bars.stop_task(self._task)

    def __enter__(self) -> Bars:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._bars.stop()


@contextmanager
def kept_when_stopped() -> Iterator[None]:
    """Say what stands when a build is stopped by Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(
            "What was encoded is kept: the same command goes on from there. An index that was there before "
            "stands.",
            err=True,
        )
        raise
