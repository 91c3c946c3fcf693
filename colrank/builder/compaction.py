"""When segments are written again as one, and how.

The policy, applied after every commit:

- A segment is of class floor(log4(tokens / 16,384)), the smallest of class 0. Eight of one class are merged:
  a merged segment is of a higher class, so that a token is written again once a class, and an index of any
  size has few segments.
- A segment of which more than a fifth of the tokens is deleted is written again without them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from colrank.builder.merging import merge_segments
from colrank.builder.progress import Progress, Silent
from colrank.builder.storage import stored_bits
from colrank.encoder import TokenFrequencies
from colrank.errors import InputError
from colrank.index import IndexWriter, Manifest, SegmentEntry, Snapshot

SMALLEST_TOKENS = 1 << 14
CLASS_FACTOR = 4
SEGMENTS_OF_A_CLASS = 8
MOST_DELETED = 0.2


@dataclass(frozen=True, slots=True)
class Compaction:
    """Segments that are written again as one.

    Attributes:
        segments: their names.
        documents, tokens: that are left in them.
        deleted: documents that are dropped for good.
        bytes: of their files now.
        retrain: whether a new codec is trained, from what the old one decodes to.
        hybrid: whether the words of passages are kept from now on.
    """

    segments: tuple[str, ...]
    documents: int
    tokens: int
    deleted: int
    bytes: int
    retrain: bool = False
    hybrid: bool = False


def due(manifest: Manifest) -> Compaction | None:
    """What the policy asks for; None where nothing is to be done."""
    by_class: dict[int, list[SegmentEntry]] = defaultdict(list)
    chosen: dict[str, SegmentEntry] = {}
    for entry in manifest.segments:
        by_class[_class(entry.live_tokens)].append(entry)
        if entry.deletions and entry.deletions.tokens > MOST_DELETED * entry.tokens:
            chosen[entry.name] = entry
    for entries in by_class.values():
        if len(entries) >= SEGMENTS_OF_A_CLASS:
            chosen |= {entry.name: entry for entry in entries}
    return _planned(list(chosen.values())) if chosen else None


def whole(manifest: Manifest, *, retrain: bool = False, hybrid: bool = False) -> Compaction | None:
    """All segments as one; None where there is one without deletions already, or none.

    Args:
        retrain: train a new codec.
        hybrid: keep the words of passages from now on.
    """
    entries = manifest.segments
    hybrid = hybrid and not manifest.hybrid
    if not entries or (len(entries) == 1 and not entries[0].deletions and not retrain and not hybrid):
        return None
    if retrain and manifest.codec is None:
        raise InputError(
            "The index has no codec to train again, as it keeps whole vectors; leave out --retrain."
        )
    plan = replace(_planned(entries), retrain=retrain, hybrid=hybrid)
    if retrain and not plan.tokens:
        raise InputError("The index holds no tokens to train a codec on; leave out --retrain.")
    return plan


def _class(tokens: int) -> int:
    size, found = SMALLEST_TOKENS * CLASS_FACTOR, 0
    while tokens >= size:
        size, found = size * CLASS_FACTOR, found + 1
    return found


def _planned(entries: Sequence[SegmentEntry]) -> Compaction:
    files = [entry.files for entry in entries]
    files += [entry.deletions.files for entry in entries if entry.deletions]
    return Compaction(
        segments=tuple(entry.name for entry in entries),
        documents=sum(entry.live_documents for entry in entries),
        tokens=sum(entry.live_tokens for entry in entries),
        deleted=sum(entry.documents - entry.live_documents for entry in entries),
        bytes=sum(size for part in files for size, _ in part.values()),
    )


def compact(
    writer: IndexWriter, base: Snapshot, plan: Compaction, progress: Progress | None = None
) -> Manifest:
    """Write the segments of a plan again as one and commit the next generation.

    Args:
        writer: an entered `IndexWriter`.
        base: the newest generation.
    """
    manifest = replace(base.manifest, hybrid=base.manifest.hybrid or plan.hybrid)
    names: Collection[str] = set(plan.segments)
    merged = [segment for segment in base.contents.segments if segment.entry.name in names]
    if not plan.documents:  # nothing is left in them
        kept = tuple(entry for entry in manifest.segments if entry.name not in names)
        following = manifest.following(kept, manifest.codec)
        writer.commit(following)
        return following
    frequencies = TokenFrequencies()
    for segment in merged:
        frequencies.include(segment.frequencies)
    made = merge_segments(
        writer,
        manifest,
        [(segment, segment.live) for segment in merged],
        frequencies,
        codec=None if plan.retrain else base.codec,
        bits=stored_bits(manifest, plan.tokens),
        longest=manifest.passage_tokens or 1 << 31 if manifest.pool > 1 else 0,
        progress=progress or Silent(),
    )
    entries: list[SegmentEntry] = []
    for entry in manifest.segments:
        if entry.name not in names:
            entries.append(entry)
        elif made.segment not in entries:
            entries.append(made.segment)
    following = manifest.following(tuple(entries), made.codec or manifest.codec)
    writer.commit(following)
    return following
