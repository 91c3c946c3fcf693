"""What is deleted from a segment: a bitmap over its documents, and token frequencies to take back.

deleted.arrow      deleted: bool, a row a document
frequencies.arrow  token_id, passages: as in a segment, of the documents that are gone

A segment never changes; a later deletion writes a new folder that holds all that is gone by then.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colrank.encoder import TokenFrequencies
from colrank.errors import IndexDamaged
from colrank.index.codec_files import check_sizes, checksums
from colrank.index.entries import DeletionEntry, SegmentEntry
from colrank.index.frequency_files import read_frequencies, write_frequencies
from colrank.index.schemas import DELETED
from colrank.shards import map_table, sync_file, write_table

FILE = "deleted.arrow"


class Deletions:
    """The opened deletions of a segment."""

    def __init__(self, folder: Path, entry: DeletionEntry, segment: SegmentEntry) -> None:
        check_sizes(folder, dict(entry.files))
        column = map_table(folder / FILE, DELETED).column("deleted").combine_chunks()
        self.deleted: NDArray[np.bool_] = column.to_numpy(zero_copy_only=False).astype(bool)
        if len(self.deleted) != segment.documents or int(self.deleted.sum()) != entry.documents:
            raise IndexDamaged(
                f"The deletions of {folder} do not fit its manifest; index again with --overwrite."
            )
        self.frequencies = read_frequencies(folder)


def write_deletions(
    folder: Path,
    deleted: NDArray[np.bool_],
    frequencies: TokenFrequencies,
    *,
    passages: int,
    tokens: int,
    unpooled_tokens: int,
    language_tokens: dict[str, int],
) -> DeletionEntry:
    """Write what is gone from a segment into a new folder and return its entry for a manifest.

    Args:
        deleted: bool `[documents]`.
        frequencies: of the passages that are gone.
        passages, tokens, unpooled_tokens, language_tokens: of the documents that are gone.
    """
    folder.mkdir(parents=True)
    write_table(pa.table({"deleted": pa.array(deleted)}), folder / FILE, rows=max(1, len(deleted)))
    write_frequencies(frequencies, folder)
    sync_file(folder)
    return DeletionEntry(
        name=folder.name,
        documents=int(deleted.sum()),
        passages=passages,
        tokens=tokens,
        unpooled_tokens=unpooled_tokens,
        language_tokens=language_tokens,
        files=checksums(folder),
    )
