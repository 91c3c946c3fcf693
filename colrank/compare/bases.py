"""Where the vectors of a corpus are kept while variants are compared: encoded once, whole, in float32."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import xxhash

from colrank.builder import Progress
from colrank.codec import whole_vectors
from colrank.corpus import find_files
from colrank.encoder import Encoder
from colrank.evaluate.originals import Originals
from colrank.index import IndexWriter, Snapshot, is_index, open_snapshot
from colrank.types import Problems

CACHE_VARIABLE = "COLRANK_CACHE"


def cache_folder(named: str | Path | None) -> Path:
    """Where comparisons keep what they encoded: as named, else COLRANK_CACHE, else the user's cache."""
    if named is not None:
        return Path(named)
    if found := os.environ.get(CACHE_VARIABLE):
        return Path(found)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "colrank"


def content_key(paths: Sequence[Path], settings: Any) -> str:
    """A name for the files of a corpus, their content, and how they are encoded."""
    digest = xxhash.xxh3_128(json.dumps(settings, sort_keys=True, default=str).encode())
    for file in find_files(paths, Problems()):
        digest.update(f"{file.label}\0{file.size}\0".encode())
        with file.path.open("rb") as content:
            while block := content.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()


def index_key(snapshot: Snapshot) -> str:
    """A name for what an index holds."""
    return xxhash.xxh3_128_hexdigest(snapshot.manifest.to_json().encode())


def base_of_index(
    folder: Path, snapshot: Snapshot, encoder: Callable[[], Encoder] | None, progress: Progress
) -> Snapshot:
    """The passages of an index with whole, unpooled float32 vectors; encoded again where they are not kept.

    Raises:
        InputError: the index was made from given vectors and keeps only codes of them.
    """
    if is_index(folder):
        return open_snapshot(folder)
    segment, manifest = snapshot.segment, snapshot.manifest
    kept = not snapshot.codec.coded and manifest.pool == 1
    originals = None if kept else Originals(snapshot, encoder, None, Problems())
    settings = replace(manifest, generation=0, bits=32, pool=1, codec=None, segments=())
    with IndexWriter(folder) as writer, writer.segment_writer(1, whole_vectors(manifest.dim, 32)) as target:
        windows = iter(originals.windows(progress)) if originals else iter(())
        ready: dict[int, Any] = {}
        for row in range(segment.entry.documents):
            stored = segment.document(row)
            owned = segment.passages_of(row)
            vectors = []
            for passage in owned:
                while originals is not None and passage not in ready:
                    rows, blocks = next(windows)
                    ready |= dict(zip(rows, blocks, strict=True))
                vectors.append(
                    ready.pop(passage)
                    if originals is not None
                    else snapshot.codec.turn_back(segment.passage_vectors(passage))
                )
            document, passages = stored.written(segment.passages(owned))
            target.add(document, stored.language, passages, vectors, encoded=stored.encoded)
        entry = target.finish(snapshot.frequencies)
        writer.commit(settings.following((entry,), None))
    return open_snapshot(folder)
