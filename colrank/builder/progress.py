"""What a build tells of its progress."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """What a build tells of its progress; every method may be called with nothing to show it."""

    def start(self, stage: str, total: int, unit: str) -> None:
        """A stage begins: `reading`, `encoding`, `training` or `coding`, of so many units."""

    def advance(self, amount: int, tokens: int = 0) -> None:
        """So many units, and so many tokens, are done."""


class Silent:
    """A progress that shows nothing."""

    def start(self, stage: str, total: int, unit: str) -> None:
        """Show nothing."""

    def advance(self, amount: int, tokens: int = 0) -> None:
        """Show nothing."""
