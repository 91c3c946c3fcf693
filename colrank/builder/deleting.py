"""Documents that leave the index: marked as deleted in their segments, which stay as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from colrank.encoder import Encoder, TokenFrequencies
from colrank.index import Contents, IndexWriter, Manifest, Segment, SegmentEntry, Snapshot, write_deletions
from colrank.passages import encoder_input

_AT_ONCE = 1024


@dataclass(frozen=True)
class Removed:
    """Documents of an index that are no longer part of it.

    Attributes:
        rows: of the documents, ascending.
        tokens: that are stored of them.
        frequencies: of their passages, by segment.
    """

    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    tokens: int = 0
    by_segment: dict[int, TokenFrequencies] = field(default_factory=dict)

    @property
    def frequencies(self) -> TokenFrequencies:
        """Of all their passages."""
        found = TokenFrequencies()
        for part in self.by_segment.values():
            found.include(part)
        return found

    def live(self, contents: Contents) -> list[NDArray[np.bool_]]:
        """By segment, which documents are left: bool `[documents]`."""
        left = [segment.live.copy() for segment in contents.segments]
        for row in self.rows.tolist():
            number, local = contents.place(row)
            left[number][local] = False
        return left


def removed_documents(
    base: Snapshot | None, rows: Iterable[int], encoder: Callable[[], Encoder] | None
) -> Removed:
    """What leaves with some documents of a snapshot.

    Args:
        base: the snapshot; None for a new index, of which nothing can leave.
        rows: of documents that are not deleted yet.
        encoder: gives the index's model, asked for only where it made the vectors of a document: the tokens
            of its passages are then no longer counted.
    """
    gone = sorted(set(rows))
    if base is None or not gone:
        return Removed()
    contents = base.contents
    tokens = 0
    frequencies: dict[int, TokenFrequencies] = {}
    for first in range(0, len(gone), _AT_ONCE):
        group = gone[first : first + _AT_ONCE]
        for document in contents.documents(group):
            owned = contents.passages_of(document.row)
            tokens += int(contents.offsets[owned.stop] - contents.offsets[owned.start])
            counted = frequencies.setdefault(contents.place(document.row)[0], TokenFrequencies())
            if document.encoded and encoder is not None:
                texts = [
                    encoder_input(document.prefix_of(passage), passage.text)
                    for passage in contents.passages(owned)
                ]
                for ids in encoder().passage_token_ids(texts):
                    counted.add(ids.tolist())
    return Removed(np.array(gone, dtype=np.int64), tokens, frequencies)


def removed_entries(writer: IndexWriter, base: Snapshot | None, removed: Removed) -> list[SegmentEntry]:
    """Entries of the base's segments after some documents left; one without any left is dropped."""
    if base is None:
        return []
    out = []
    left = removed.live(base.contents)
    for number, segment in enumerate(base.contents.segments):
        entry, live = segment.entry, left[number]
        if number not in removed.by_segment:
            out.append(entry)
        elif live.any():
            out.append(_without(writer, base, segment, live, removed.by_segment[number]))
    return out


def _without(
    writer: IndexWriter,
    base: Snapshot,
    segment: Segment,
    live: NDArray[np.bool_],
    frequencies: TokenFrequencies,
) -> SegmentEntry:
    """The entry of a segment of which only some documents are left; work follows those that go now."""
    entry = segment.entry
    gone = np.flatnonzero(segment.live & ~live)
    firsts, counts = segment.first_passages[gone], segment.passage_counts[gone]
    tokens = segment.offsets[firsts + counts] - segment.offsets[firsts]
    all_gone = TokenFrequencies()
    all_gone.include(frequencies)
    languages: Counter[str] = Counter()
    passages = unpooled = before = 0
    if segment.deletions is not None and entry.deletions is not None:
        all_gone.include(segment.deletions.frequencies)
        languages.update(entry.deletions.language_tokens)
        passages, before = entry.deletions.passages, entry.deletions.tokens
        unpooled = entry.deletions.unpooled_tokens
    for first in range(0, len(gone), _AT_ONCE):
        stored = segment.documents(gone[first : first + _AT_ONCE].tolist())
        for document, held in zip(stored, tokens[first : first + _AT_ONCE].tolist(), strict=True):
            languages[document.language] += held
            unpooled += sum(segment.unpooled(segment.passages_of(document.row)))
    deletions = write_deletions(
        writer.deletions_folder(base.manifest.generation + 1, entry),
        ~live,
        all_gone,
        passages=passages + int(counts.sum()),
        tokens=before + int(tokens.sum()),
        unpooled_tokens=unpooled,
        language_tokens=dict(sorted(languages.items())),
    )
    return replace(entry, deletions=deletions)


def delete_documents(
    writer: IndexWriter, base: Snapshot, rows: Iterable[int], encoder: Callable[[], Encoder] | None
) -> Manifest:
    """Commit the next generation, without some documents of the base.

    Args:
        writer: an entered `IndexWriter`.
        base: the newest generation.
        rows: of documents that are not deleted yet, at least one.
        encoder: as in `removed_documents`.
    """
    removed = removed_documents(base, rows, encoder)
    entries = removed_entries(writer, base, removed)
    manifest = base.manifest.following(tuple(entries), base.manifest.codec)
    writer.commit(manifest)
    return manifest
