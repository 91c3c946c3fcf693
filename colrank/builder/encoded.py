"""Windows of passages as they were encoded, kept until the commit: a stopped build goes on from them.

A window's file is named by a hash of the model, the precision and the texts, so that only what would be
encoded alike is taken. It appears whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from colrank.encoder import Encoder
from colrank.errors import IndexDamaged
from colrank.shards import map_table, sync_file, write_table

Encoded = list[tuple[NDArray[np.float16] | NDArray[np.float32], NDArray[np.int64]]]
"""For each passage its vectors `[tokens, dim]`, and the token id of each."""


class EncodedWindows:
    """Encodes windows of passages, each once, however often the build is stopped.

    Vectors are rounded to the precision in which they are kept, so that a window that was read gives the same
    index as one that was encoded.

    Args:
        folder: where windows are kept; made when there is one.
        encoder: the model.
        bits: 16 or 32, of the vectors that are kept.
        dtype: precision of the model.
    """

    def __init__(self, folder: Path, encoder: Encoder, bits: int, dtype: str) -> None:
        self._folder = folder
        self._encoder = encoder
        self._kind: Any = np.float32 if bits == 32 else np.float16
        self._key = f"{sorted(encoder.fingerprint.to_json().items())} {dtype} {bits}"
        self.resumed = 0

    def encode(
        self, inputs: Sequence[str], lengths: Sequence[int], done: Callable[[Sequence[int]], None]
    ) -> Encoded:
        """As `Encoder.encode_passages`, or what that gave before for these inputs."""
        if not inputs:
            return []
        digest = xxhash.xxh3_128(self._key.encode())
        for text in inputs:
            digest.update(f"\0{len(text)}\0{text}".encode())
        path = self._folder / f"{digest.hexdigest()}.arrow"
        held = self._read(path, len(inputs))
        if held is not None:
            self.resumed += len(inputs)
            done(range(len(inputs)))
            return held
        found = [
            (vectors.astype(self._kind), ids)
            for vectors, ids in self._encoder.encode_passages(inputs, lengths, done)
        ]
        self._write(path, found)
        return found

    def _read(self, path: Path, passages: int) -> Encoded | None:
        if not path.exists():
            return None
        try:
            table = map_table(path).combine_chunks()
            lengths = table.column("tokens").to_numpy()
            ids = np.concatenate([np.empty(0, np.int64), *map(np.asarray, _flat(table, "ids"))])
            flat = np.concatenate([np.empty(0, self._kind), *map(np.asarray, _flat(table, "vectors"))])
            ends = np.cumsum(lengths)[:-1]
            vectors = flat.reshape(len(ids), -1) if len(ids) else flat.reshape(0, self._encoder.dim)
            if len(lengths) != passages:
                return None
            return list(zip(np.split(vectors, ends), np.split(ids, ends), strict=True))
        except (IndexDamaged, KeyError, ValueError, pa.ArrowException):
            return None  # encoded again

    def _write(self, path: Path, found: Encoded) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        value = pa.float32() if self._kind is np.float32 else pa.float16()
        table = pa.table(
            {
                "tokens": pa.array([len(ids) for _, ids in found], pa.int64()),
                "ids": pa.array([ids for _, ids in found], pa.large_list(pa.int64())),
                "vectors": pa.array([vectors.reshape(-1) for vectors, _ in found], pa.large_list(value)),
            }
        )
        partial = path.with_suffix(".partial")
        write_table(table, partial)
        partial.rename(path)
        sync_file(self._folder)


def _flat(table: pa.Table, name: str) -> list[Any]:
    return [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in table.column(name).chunks]
