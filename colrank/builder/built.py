"""What a build changed."""

from __future__ import annotations

from dataclasses import dataclass

from colrank.index import Manifest


@dataclass(frozen=True, slots=True)
class Built:
    """The generation that stands after a build, and how many documents came, changed, stayed and went.

    `resumed` is how many passages an earlier build, which was stopped, had encoded.
    """

    manifest: Manifest
    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    deleted: int = 0
    resumed: int = 0
