"""A codec's tables on disk, one folder a codec, and the checksums of files.

centroids.arrow   vector: fixed_size_list<halffloat>[dim], in the codec's space
rotation.arrow    vector: fixed_size_list<float>[dim], the rows of the rotation (kind linear)
levels.arrow      level: float, what each code stands for (1 to 8 bits)
scales.arrow      scale: float, what each scale byte stands for (kind linear)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from colrank.codec import Codec, Training, whole_vectors
from colrank.errors import IndexDamaged
from colrank.index.entries import CodecEntry
from colrank.index.manifest import Manifest
from colrank.shards import map_table, sync_file, write_table


def checksums(folder: Path) -> dict[str, tuple[int, str]]:
    """Size and xxh3 of every file of a folder, by name."""
    return {path.name: _checksum(path) for path in sorted(folder.iterdir())}


def _checksum(path: Path) -> tuple[int, str]:
    digest, size = xxhash.xxh3_128(), 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
            size += len(block)
    return size, digest.hexdigest()


def checksum_faults(folder: Path, files: Mapping[str, tuple[int, str]]) -> Iterator[tuple[str, str]]:
    """Files that are missing, of another size, or of another content than a manifest says, and how."""
    for name, (size, checksum) in files.items():
        path = folder / name
        if not path.is_file():
            yield name, "is missing"
            continue
        try:
            found = _checksum(path)
        except OSError as error:
            yield name, f"cannot be read ({error.strerror})"
            continue
        if found[0] != size:
            yield name, f"has {found[0]} bytes and the manifest says {size}"
        elif found[1] != checksum:
            yield name, "has another checksum than the manifest says"


def check_sizes(folder: Path, files: dict[str, tuple[int, str]]) -> None:
    """Raise IndexDamaged unless every file has the size that the manifest says."""
    for name, (size, _) in files.items():
        path = folder / name
        found = path.stat().st_size if path.is_file() else -1
        if found != size:
            raise IndexDamaged(
                f"{path.name} of {folder.parent} has {max(found, 0)} bytes and the manifest says {size}; "
                "index again with --overwrite."
            )


def write_codec(folder: Path, codec: Codec, training: Training) -> CodecEntry:
    """Write a codec's tables into a new folder and return its entry for a manifest."""
    folder.mkdir(parents=True)
    assert codec.centroids is not None
    _write_matrix(codec.centroids.astype(np.float16), pa.float16(), folder / "centroids.arrow")
    if codec.rotation is not None:
        _write_matrix(codec.rotation, pa.float32(), folder / "rotation.arrow")
    if codec.levels is not None:
        write_table(pa.table({"level": codec.levels}), folder / "levels.arrow")
    if codec.scales is not None:
        write_table(pa.table({"scale": codec.scales}), folder / "scales.arrow")
    sync_file(folder)
    return CodecEntry(folder.name, codec.bits, codec.kind, len(codec.centroids), training, checksums(folder))


def read_codec(folder: Path, manifest: Manifest) -> Codec:
    """The codec of a generation; one that keeps whole vectors where the manifest names none.

    Raises:
        IndexDamaged: a table is missing, cut short, or of another shape.
    """
    entry = manifest.codec
    if entry is None:
        return whole_vectors(manifest.dim, manifest.stored_bits)
    place = folder / entry.name
    check_sizes(place, dict(entry.files))
    codec = Codec(
        manifest.dim,
        entry.bits,
        entry.kind,
        _read_matrix(place / "centroids.arrow").astype(np.float32),
        _read_matrix(place / "rotation.arrow") if "rotation.arrow" in entry.files else None,
        _read_column(place / "levels.arrow", "level") if "levels.arrow" in entry.files else None,
        _read_column(place / "scales.arrow", "scale") if "scales.arrow" in entry.files else None,
    )
    assert codec.centroids is not None
    shapes = [
        (codec.centroids, (entry.centroids, manifest.dim)),
        (codec.rotation, (manifest.dim, manifest.dim)),
        (codec.levels, (2 ** min(entry.bits, 8),)),
        (codec.scales, (256,)),
    ]
    if any(table is not None and table.shape != shape for table, shape in shapes):
        raise IndexDamaged(f"The tables of {place} do not fit its manifest; index again with --overwrite.")
    return codec


def _write_matrix(matrix: NDArray[Any], kind: pa.DataType, path: Path) -> None:
    flat = pa.array(np.ascontiguousarray(matrix).reshape(-1), type=kind)
    column = pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])
    schema = pa.schema([pa.field("vector", column.type, nullable=False)])
    write_table(pa.table([column], schema=schema), path, rows=len(matrix))


def _read_matrix(path: Path) -> NDArray[Any]:
    column = _column(path, "vector")
    if not pa.types.is_fixed_size_list(column.type):
        raise IndexDamaged(f"{path.name} holds no vectors; index again with --overwrite.")
    return np.concatenate(
        [np.asarray(chunk.flatten().to_numpy()).reshape(-1, column.type.list_size) for chunk in column.chunks]
    )


def _read_column(path: Path, name: str) -> NDArray[np.float32]:
    return np.asarray(_column(path, name).to_numpy(), dtype=np.float32)


def _column(path: Path, name: str) -> pa.ChunkedArray:
    table = map_table(path)
    if table.schema.names != [name] or not len(table):
        raise IndexDamaged(f"{path.name} holds no column {name}; index again with --overwrite.")
    return table.column(name)
