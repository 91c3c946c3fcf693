"""Codes and prefilter on vectors of another encoder, so that the defaults do not fit one model alone.

    COLRANK_DATA=... python bench/second_encoder.py [--collections cranfield cacm] [--layer 4]

The other encoder is the embedded body cut after an earlier layer, unprojected: 384 dimensions, another
geometry. Its vectors reach the index as a user's own would, through `add_embeddings`, one document a
passage.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from judged import data_folder, read_judgements, read_queries, shared, write_results

from colrank import ColRank, Hits
from colrank.codec import whole_vectors
from colrank.config import FieldNames
from colrank.corpus import find_files, read_file
from colrank.encoder import Encoder
from colrank.encoder.embedded import load_embedded
from colrank.passages import encoder_input
from colrank.score import QueryVectors, scan
from colrank.shards import TokenVectors
from colrank.types import Problems

_LONGEST = 2000


def other_encoder(layer: int) -> Encoder:
    """The embedded body cut after a layer."""
    model = load_embedded("cpu")
    body: Any = model[0]
    body.auto_model.encoder.layer = body.auto_model.encoder.layer[:layer]
    name = f"all-MiniLM-L6-v2, layer {layer}"
    return Encoder(
        model, name=name, weights=name, dtype=torch.float32, projection=None, projection_name="none"
    )


def measure(collection: str, layer: int, folder: Path) -> list[dict[str, Any]]:
    encoder = other_encoder(layer)
    encoder.text_budget(256)
    files = find_files([data_folder() / collection / "corpus.jsonl"], Problems())
    texts = {
        document.id: encoder_input(document.title, document.text)[:_LONGEST]
        for file in files
        for document in read_file(file, FieldNames(), Problems())
    }
    arrays = encoder.encode_texts(list(texts.values()))
    judged = read_judgements(collection)
    queries = [
        query.vectors
        for query in encoder.encode_queries([t for n, t in read_queries(collection).items() if n in judged])
    ]

    whole = whole_vectors(encoder.dim, 32)
    offsets = np.concatenate([[0], np.cumsum([len(block) for block in arrays])]).astype(np.int64)
    ones = [QueryVectors(q, np.ones(len(q), dtype=np.float32)) for q in queries]
    scores = scan(ones, TokenVectors(whole, [whole.encode(np.concatenate(arrays))]), offsets)
    names = list(texts)
    exact = [[names[i] for i in np.argsort(-row, kind="stable")[:100]] for row in scores]
    rows = []
    for bits in (2, 4):
        index = ColRank.create(folder / f"{collection}-{bits}", model=None, bits=bits)
        index.add_embeddings(list(texts), arrays)
        full = _documents(index.search(queries, 100, scan="always"))
        stats = index.stats()
        row = {
            "collection": collection,
            "encoder": encoder.name,
            "dim": encoder.dim,
            "tokens": stats["tokens"],
            "queries": len(queries),
            "codec": stats["codec"],
            "bits": bits,
            "codes_of_exact": {"@10": shared(full, exact, 10), "@100": shared(full, exact, 100)},
            "prefilter_of_full_scan": {
                f"@{k}": shared(_documents(index.search(queries, k, scan="never")), full, k)
                for k in (10, 100)
            },
        }
        print(row, flush=True)
        rows.append(row)
    return rows


def _documents(found: list[Hits]) -> list[list[str]]:
    return [[hit.document for hit in hits] for hits in found]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collections", nargs="+", default=("cranfield", "cacm"))
    parser.add_argument("--layer", type=int, default=4)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for collection in options.collections:
            rows += measure(collection, options.layer, Path(folder))
    write_results("second-encoder", {"rows": rows})


if __name__ == "__main__":
    main()
