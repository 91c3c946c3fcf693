"""An index on disk: manifest, segments, the writer's lock, and snapshots of a committed generation."""

from colrank.filters import Where
from colrank.index.contents import Contents, Counts
from colrank.index.deletions import write_deletions
from colrank.index.entries import CodecEntry, DeletionEntry, Knobs, SegmentEntry
from colrank.index.manifest import FORMAT_VERSION, Manifest, drifted
from colrank.index.segment import Segment, StoredDocument, StoredPassage
from colrank.index.segment_writer import SegmentWriter
from colrank.index.store import IndexWriter, Snapshot, is_index, open_snapshot
from colrank.index.verify import Fault, Verification, verify

__all__ = [
    "FORMAT_VERSION",
    "CodecEntry",
    "Contents",
    "Counts",
    "DeletionEntry",
    "Fault",
    "IndexWriter",
    "Knobs",
    "Manifest",
    "Segment",
    "SegmentEntry",
    "SegmentWriter",
    "Snapshot",
    "StoredDocument",
    "StoredPassage",
    "Verification",
    "Where",
    "drifted",
    "is_index",
    "open_snapshot",
    "verify",
    "write_deletions",
]
