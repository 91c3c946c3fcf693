"""Where the vectors of a corpus are kept while variants are compared: encoded once, whole, in float32."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xxhash

from colrank.builder import Progress
from colrank.codec import whole_vectors
from colrank.corpus import find_files
from colrank.encoder import Encoder
from colrank.evaluate.originals import Originals
from colrank.index import IndexWriter, Snapshot, StoredDocument, is_index, open_snapshot
from colrank.search import Query
from colrank.types import Problems, Vectors

CACHE_VARIABLE = "COLRANK_CACHE"


class Opened(Protocol):
    """An index as a comparison uses it: `colrank.api.ColRank`."""

    path: Path

    @property
    def snapshot(self) -> Snapshot: ...  # noqa: D102
    @property
    def encoder(self) -> Encoder: ...  # noqa: D102
    def prepare(self, inputs: Sequence[Any], snapshot: Snapshot) -> list[Query]: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Base:
    """A corpus with the whole float32 vectors of one model.

    Attributes:
        index: has the model and says where it is.
        snapshot: the vectors, not pooled.
        folder: of this corpus and model in the cache.
        encoded: whether they were made just now; else they were in the cache.
    """

    index: Opened
    snapshot: Snapshot
    folder: Path
    encoded: bool

    @property
    def encoder(self) -> Encoder | None:
        """The model; None for given vectors."""
        return None if self.snapshot.manifest.model is None else self.index.encoder


def base_of_paths(
    paths: Sequence[Path],
    settings: Mapping[str, Any],
    cache: Path,
    encode: Callable[[Path], Opened],
    open_index: Callable[[Path], Opened],
) -> Base:
    """The base of files and folders, from the cache where it is there.

    Args:
        settings: what decides how text becomes vectors, for the name in the cache.
        encode: indexes the paths with whole float32 vectors into a folder.
        open_index: opens an index.
    """
    folder = cache / f"corpus-{content_key(paths, settings)}"
    known = is_index(folder / "base")
    index = open_index(folder / "base") if known else encode(folder / "base")
    return Base(index, index.snapshot, folder, not known)


def base_of_index(index: Opened, cache: Path, progress: Progress) -> Base:
    """The base of an index's passages, from the cache where it is there.

    Raises:
        InputError: the index was made from given vectors and keeps only codes of them.
    """
    folder = cache / f"index-{index_key(index.snapshot)}"
    known = is_index(folder / "base")
    if not known:
        _write_whole(folder / "base", index, progress)
    # The base lies elsewhere than the index, so that the model is found from the index only.
    return Base(index, open_snapshot(folder / "base"), folder, not known)


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


def _write_whole(folder: Path, index: Opened, progress: Progress) -> None:
    """Write the passages of an index with whole, unpooled float32 vectors."""
    manifest, contents = index.snapshot.manifest, index.snapshot.contents
    settings = replace(manifest, generation=0, bits=32, pool=1, centroids=None, codec=None, segments=())
    with IndexWriter(folder) as writer, writer.segment_writer(1, whole_vectors(manifest.dim, 32)) as target:
        for stored, vectors in _documents(index, progress):
            document, passages = stored.written(contents.passages(contents.passages_of(stored.row)))
            target.add(
                document,
                stored.language,
                passages,
                vectors,
                encoded=stored.encoded,
                content=contents.content_hashes([stored.row])[0],
            )
        entry = target.finish(contents.frequencies)
        writer.commit(settings.following((entry,), None))


def _documents(index: Opened, progress: Progress) -> Iterator[tuple[StoredDocument, list[Vectors]]]:
    """Every document that is not deleted with its passages' vectors, encoded again where not kept whole."""
    snapshot = index.snapshot
    contents = snapshot.contents
    if not snapshot.codec.coded and snapshot.manifest.pool == 1:
        for stored in contents.live_documents():
            blocks = [contents.passage_vectors(row) for row in contents.passages_of(stored.row)]
            yield stored, [snapshot.codec.turn_back(block.astype(np.float32)) for block in blocks]
        return
    has_model = snapshot.manifest.model is not None
    originals = Originals(snapshot, (lambda: index.encoder) if has_model else None, None, Problems())
    windows = originals.windows(progress)
    ready: dict[int, Vectors] = {}
    for stored in contents.live_documents():
        vectors = []
        for passage in contents.passages_of(stored.row):
            while passage not in ready:
                rows, found = next(windows)
                ready |= dict(zip(rows.tolist(), found, strict=True))
            vectors.append(ready.pop(passage))
        yield stored, vectors
