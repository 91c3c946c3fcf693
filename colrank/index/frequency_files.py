"""Token frequencies on disk: frequencies.arrow, with the number of passages in the schema's metadata."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from colrank.encoder import TokenFrequencies
from colrank.errors import IndexDamaged
from colrank.index.schemas import FREQUENCIES
from colrank.shards import map_table, write_table

FILE = "frequencies.arrow"


def write_frequencies(frequencies: TokenFrequencies, folder: Path) -> None:
    """Write frequencies into a folder of the index."""
    ids, counts = frequencies.table()
    table = pa.table({"token_id": ids, "passages": counts})
    write_table(table.replace_schema_metadata({"passages": str(frequencies.passages)}), folder / FILE)


def read_frequencies(folder: Path, mapped: pa.Table | None = None) -> TokenFrequencies:
    """Read what `write_frequencies` wrote, from the file, or from its table where that was mapped before.

    Raises:
        IndexDamaged: the file is missing or damaged.
    """
    table = map_table(folder / FILE, FREQUENCIES) if mapped is None else mapped
    try:
        passages = int((table.schema.metadata or {})[b"passages"])
        ids, counts = (table.column(name).to_pylist() for name in ("token_id", "passages"))
    except (KeyError, ValueError) as error:
        raise IndexDamaged(
            f"{FILE} of {folder} holds no token frequencies; index again with --overwrite."
        ) from error
    return TokenFrequencies(dict(zip(ids, counts, strict=True)), passages)
