"""Labels: short relative names of files, the same wherever the corpus lies, and distinct."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Root:
    """A path that the user gave: its resolved names, and how many of them, from the end, labels show."""

    names: tuple[str, ...]
    depth: int = 1


def portable(names: Iterable[str]) -> str:
    """The names joined by slashes, as text that can be written as UTF-8 whatever bytes the names hold."""
    return "/".join(name for name in names if name).encode("utf-8", "backslashreplace").decode("utf-8")


def distinct_labels(files: Sequence[tuple[Root, tuple[str, ...]]], roots: Sequence[Root]) -> list[str]:
    """Label each file by its root's name and its names inside the root.

    Roots that would share a label show parent names, all of them equally many, until they differ.
    """
    while True:
        labels = [_label(root, inside) for root, inside in files]
        owners: dict[str, set[Root]] = {}
        for root in roots:
            owners.setdefault(_label(root), set()).add(root)
        for (root, _), label in zip(files, labels, strict=True):
            owners.setdefault(label, set()).add(root)
        clashing = {root for sharing in owners.values() if len(sharing) > 1 for root in sharing}
        deeper = [root for root in clashing if root.depth < len(root.names)]
        if not deeper:
            return labels
        for root in deeper:
            root.depth += 1


def _label(root: Root, inside: tuple[str, ...] = ()) -> str:
    return portable((*root.names[-root.depth :], *inside))
