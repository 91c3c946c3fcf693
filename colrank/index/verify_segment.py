"""Whether the files of an opened segment fit each other and the manifest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from colrank.errors import IndexDamaged
from colrank.index.document_ids import FILE as IDS_FILE
from colrank.index.document_ids import id_hashes
from colrank.index.frequency_files import FILE as FREQUENCIES_FILE
from colrank.index.postings import FILE as POSTINGS_FILE
from colrank.index.postings import centroid_passages
from colrank.index.segment import POOLING_FILE, Segment
from colrank.lexical.tables import POSTINGS_FILE as WORD_POSTINGS_FILE
from colrank.lexical.tables import TERMS_FILE

_DOCUMENTS = 4096
_TOKENS = 1 << 18


def segment_faults(segment: Segment, owners: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What does not fit: the file, relative to the index, and a sentence.

    Args:
        segment: opened, which has checked sizes, rows and offsets.
        owners: by id the segment that holds a document that is not deleted; added to.
    """
    yield from _ids(segment, owners)
    yield from _counts(segment)
    yield from _tokens(segment)
    yield from _postings(segment)
    yield from _pooling(segment)
    yield from _words(segment)
    try:
        frequencies = segment.frequencies
    except IndexDamaged as error:
        yield f"{segment.entry.name}/{FREQUENCIES_FILE}", str(error)
    else:
        encoded = _encoded_passages(segment)
        if frequencies.passages != encoded:
            yield (
                f"{segment.entry.name}/{FREQUENCIES_FILE}",
                f"counts {frequencies.passages} passages and the documents have {encoded}",
            )


def _ids(segment: Segment, owners: dict[str, str]) -> Iterator[tuple[str, str]]:
    name = segment.entry.name
    ids = segment.ids()
    live = segment.live
    for row, document in enumerate(ids):
        if not document:
            yield f"{name}/documents.arrow", f"the document of row {row} has no id"
        elif live[row]:
            if document in owners:
                yield f"{name}/documents.arrow", f"holds {document!r}, which {owners[document]} holds too"
            owners[document] = name
    for first in range(0, len(ids), _DOCUMENTS):
        part = ids[first : first + _DOCUMENTS]
        found = segment.document_rows(part, id_hashes(part))
        for row, document in enumerate(part, start=first):
            if live[row] and found.get(document) != row:
                yield f"{name}/{IDS_FILE}", f"does not lead from {document!r} to its row"


def _encoded_passages(segment: Segment) -> int:
    encoded = segment.document_table.column("encoded").to_numpy(zero_copy_only=False).astype(bool)
    return int(segment.passage_counts[encoded & segment.live].sum())


def _counts(segment: Segment) -> Iterator[tuple[str, str]]:
    """Counts of the manifest, of all documents and of those that are deleted."""
    entry, name = segment.entry, segment.entry.name
    tokens = np.diff(segment.offsets)
    by_document = (
        np.add.reduceat(np.append(tokens, 0), np.minimum(segment.first_passages, len(tokens)))
        if entry.documents
        else np.zeros(0, dtype=np.int64)
    )
    by_document[segment.passage_counts == 0] = 0
    unpooled = tokens if segment.pooling_table is None else _unpooled(segment)
    languages: Counter[str] = Counter()
    gone: Counter[str] = Counter()
    for first in range(0, entry.documents, _DOCUMENTS):
        rows = range(first, min(first + _DOCUMENTS, entry.documents))
        for row, language, text in zip(
            rows,
            segment.document_table.column("language").slice(first, len(rows)).to_pylist(),
            segment.document_table.column("metadata").slice(first, len(rows)).to_pylist(),
            strict=True,
        ):
            languages[language] += int(by_document[row])
            if not segment.live[row]:
                gone[language] += int(by_document[row])
            if not isinstance(_json(text), dict):
                yield f"{name}/documents.arrow", f"the metadata of row {row} are no JSON object"
    if {key: count for key, count in languages.items() if count} != {
        key: count for key, count in entry.language_tokens.items() if count
    }:
        yield f"{name}/documents.arrow", "its languages have other tokens than the manifest says"
    if int(unpooled.sum()) != entry.unpooled_tokens:
        yield f"{name}/{POOLING_FILE}", "has another number of tokens than the manifest says"
    if entry.deletions is None:
        return
    dead = np.repeat(~segment.live, segment.passage_counts)
    found = (int(dead.sum()), int(tokens[dead].sum()), int(unpooled[dead].sum()))
    told = (entry.deletions.passages, entry.deletions.tokens, entry.deletions.unpooled_tokens)
    same = {key: count for key, count in gone.items() if count} == {
        key: count for key, count in entry.deletions.language_tokens.items() if count
    }
    if found != told or not same:
        yield f"{entry.deletions.name}/deleted.arrow", "takes away other passages than the manifest says"


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _unpooled(segment: Segment) -> NDArray[np.int64]:
    assert segment.pooling_table is not None
    return np.asarray(segment.pooling_table.column("unpooled").to_numpy(), dtype=np.int64)


def _tokens(segment: Segment) -> Iterator[tuple[str, str]]:
    """Centroids that are there, vectors that are numbers."""
    codec, name = segment.vectors.codec, segment.entry.name
    for first in range(0, len(segment.vectors), _TOKENS):
        end = min(first + _TOKENS, len(segment.vectors))
        columns = segment.vectors.columns(first, end)
        if codec.centroids is not None:
            ids = columns["centroid"]
            if len(ids) and int(ids.max()) >= len(codec.centroids):
                yield (
                    f"{name}/{segment.entry.shards[0]}",
                    f"names centroid {int(ids.max())}, which is not there",
                )
                return
        for column in ("vector", "inverse_norm"):
            if column in columns and not np.isfinite(columns[column]).all():
                yield f"{name}/{segment.entry.shards[0]}", f"holds a {column} that is no number"
                return


def _postings(segment: Segment) -> Iterator[tuple[str, str]]:
    """Postings equal what the codes say, compared block by block."""
    postings = segment.postings
    if postings is None:
        return
    file = f"{segment.entry.name}/{POSTINGS_FILE}"
    at = postings.offsets[:-1].copy()
    for centroids, passages in centroid_passages(segment.vectors, segment.offsets):
        if len(centroids) and int(centroids.max()) >= len(at):
            return  # said of the tokens
        here = np.bincount(centroids, minlength=len(at))
        places = at[centroids] + np.arange(len(centroids)) - (np.cumsum(here) - here)[centroids]
        if len(places) and (
            int(places.max()) >= len(postings) or not np.array_equal(postings.passages(places), passages)
        ):
            yield file, "does not name the passages that the codes say"
            return
        at += here
    if not np.array_equal(at, postings.offsets[1:]):
        yield file, "names more passages than the codes say"


def _pooling(segment: Segment) -> Iterator[tuple[str, str]]:
    """Labels begin at 0, mention each stored token, first mentions ascending."""
    if segment.pooling_table is None:
        return
    file = f"{segment.entry.name}/{POOLING_FILE}"
    tokens, unpooled = np.diff(segment.offsets), _unpooled(segment)
    for first in range(0, segment.entry.passages, _DOCUMENTS):
        rows = range(first, min(first + _DOCUMENTS, segment.entry.passages))
        for row, labels in zip(rows, segment.labels(rows) or (), strict=True):
            if not len(labels):
                continue
            highest = np.maximum.accumulate(labels)
            steps = np.diff(highest, prepend=-1)
            if len(labels) != unpooled[row] or int(highest[-1]) + 1 != tokens[row] or int(steps.max()) > 1:
                yield file, f"does not fit the tokens of the passage of row {row}"
                return


def _words(segment: Segment) -> Iterator[tuple[str, str]]:
    """Terms ascend, so do the passages of each, and a passage has a term for each of its words."""
    words = segment.words
    if words is None:
        return
    name = segment.entry.name
    occurrences = np.zeros(segment.entry.passages, dtype=np.int64)
    before = b""
    for place in range(len(words)):
        term = words.term(place).encode()
        if term <= before:
            yield f"{name}/{TERMS_FILE}", f"does not keep its terms in order at row {place}"
            return
        before = term
        passages, counts = words.at(place)
        if not len(passages) or int(counts.min()) < 1 or (np.diff(passages) < 1).any():
            yield (
                f"{name}/{WORD_POSTINGS_FILE}",
                f"does not name passages in order for row {place} of the terms",
            )
            return
        occurrences[passages] += counts
    if (occurrences < words.lengths).any() or (occurrences[words.lengths == 0] > 0).any():
        yield f"{name}/{WORD_POSTINGS_FILE}", "does not fit the lengths of the passages"
