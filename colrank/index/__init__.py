"""An index on disk: manifest, segments, the writer's lock, and snapshots of a committed generation."""

from colrank.index.manifest import FORMAT_VERSION, CodecEntry, Knobs, Manifest, SegmentEntry
from colrank.index.segment import Segment, StoredDocument, StoredPassage
from colrank.index.segment_writer import SegmentWriter
from colrank.index.store import IndexWriter, Snapshot, is_index, open_snapshot

__all__ = [
    "FORMAT_VERSION",
    "CodecEntry",
    "IndexWriter",
    "Knobs",
    "Manifest",
    "Segment",
    "SegmentEntry",
    "SegmentWriter",
    "Snapshot",
    "StoredDocument",
    "StoredPassage",
    "is_index",
    "open_snapshot",
]
