"""The vectors that all are given: a judged collection, or passages drawn again from its text.

A collection is encoded once, by colrank, through the cache of its comparisons (COLRANK_CACHE). Each document
is one passage here, however long: rivals differ in what they can say about documents of several.

Drawn passages are windows of real ones, each vector with a little noise of its own. So the tokens that are
frequent in life are frequent here too, and no two passages are the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import xxhash

from colrank import ColRank, __version__
from colrank.compare.bases import Base, base_of_paths, cache_folder
from colrank.compare.models import model_place
from colrank.config import EMBEDDED_MODEL, EncoderConfig, FieldNames

sys.path.append(str(Path(__file__).parents[1]))

TOKENS, SPREAD, FEWEST, MOST = 120, 30, 40, 200
"""Mean and deviation of the tokens of a drawn passage, and its limits."""

NOISE = 0.1
SEED = 0
AT_ONCE = 2000


def encoded(collection: str) -> Base:
    """A collection by the embedded encoder, whole float32 vectors, from the cache where it is there."""
    from judged import data_folder

    paths = [data_folder() / collection / "corpus.jsonl"]
    # The very settings of `ColRank.compare` by its defaults, so that its cache serves here and the other
    # way round.
    settings = {
        **asdict(EncoderConfig(model_place(EMBEDDED_MODEL), None, "float32", "auto", False)),
        **asdict(FieldNames()),
        "passage_tokens": None,
        "overlap": 0,
        "token_weights": "auto",
        "seed": 0,
        "version": __version__,
    }

    def encode(folder: Path) -> ColRank:
        print(f"{collection}: encoding, which takes a while, into {folder}", flush=True)
        made = ColRank.create(folder, model=EMBEDDED_MODEL, bits=32)
        made.add_files(paths)
        return made

    return base_of_paths(paths, settings, cache_folder(None), encode, ColRank.open)


def documents(base: Base) -> Iterator[tuple[str, np.ndarray]]:
    """Each document's id with the vectors of all its passages, float32 `[tokens, dim]`."""
    contents, codec = base.snapshot.contents, base.snapshot.codec
    for stored in contents.live_documents():
        blocks = [contents.passage_vectors(row) for row in contents.passages_of(stored.row)]
        if blocks:
            yield stored.id, codec.turn_back(np.concatenate(blocks).astype(np.float32))


def make(folder: Path, collection: str, passages: int | None, noise: float, queries: int | None) -> Path:
    """Write what `worker_side.Shared` reads into a folder, unless it is there.

    Args:
        passages: how many to draw, or None for the collection's own.
        noise: length of what is added to each vector of a drawn passage.
        queries: the first so many judged queries; None is all.
    """
    if (folder / "about.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    base = encoded(collection)
    _write_queries(folder, base, collection, queries)
    names, blocks = zip(*documents(base), strict=True)
    if passages is None:
        ids, lengths, stream = list(names), [len(block) for block in blocks], iter(blocks)
    else:
        drawn = _windows([len(block) for block in blocks], passages)
        ids, lengths = [names[at] for at, _, _ in drawn], [size for _, _, size in drawn]
        stream = _noisy(blocks, drawn, noise)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    shape = (int(offsets[-1]), blocks[0].shape[1])
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float16, shape)
    at = 0
    for block in stream:
        vectors[at : at + len(block)] = block
        at += len(block)
    vectors.flush()
    np.save(folder / "offsets.npy", offsets)
    (folder / "passage_ids.json").write_text(json.dumps(ids))
    about = {
        "collection": collection,
        "drawn": passages,
        "noise": noise if passages else None,
        "seed": SEED if passages else None,
        "passages": len(ids),
        "tokens": shape[0],
        "dim": shape[1],
        "digest": _digest(folder),
    }
    (folder / "about.json").write_text(json.dumps(about, indent=1))
    return folder


def _write_queries(folder: Path, base: Base, collection: str, most: int | None) -> None:
    from judged import read_judgements, read_queries

    texts, judgements = read_queries(collection), read_judgements(collection)
    judged = [name for name in texts if name in judgements][:most]
    assert base.encoder is not None
    found = [query.vectors for query in base.encoder.encode_queries([texts[name] for name in judged])]
    np.save(folder / "queries.npy", np.concatenate(found).astype(np.float32))
    np.save(folder / "query_offsets.npy", np.concatenate([[0], np.cumsum(list(map(len, found)))]))
    (folder / "query_ids.json").write_text(json.dumps(judged))


def _windows(lengths: list[int], count: int) -> list[tuple[int, int, int]]:
    """Where drawn passages come from: which document, its first token, how many."""
    random = np.random.default_rng(SEED)
    sources = random.integers(len(lengths), size=count)
    sizes = np.clip(random.normal(TOKENS, SPREAD, size=count).round().astype(int), FEWEST, MOST)
    sizes = np.minimum(sizes, np.asarray(lengths)[sources])
    starts = (random.random(count) * (np.asarray(lengths)[sources] - sizes + 1)).astype(int)
    return list(zip(sources.tolist(), starts.tolist(), sizes.tolist(), strict=True))


def _noisy(
    blocks: tuple[np.ndarray, ...], drawn: list[tuple[int, int, int]], noise: float
) -> Iterator[np.ndarray]:
    for first in range(0, len(drawn), AT_ONCE):
        random = np.random.default_rng([SEED, first])
        group = drawn[first : first + AT_ONCE]
        vectors = np.concatenate([blocks[at][start : start + size] for at, start, size in group])
        added = random.standard_normal(vectors.shape, dtype=np.float32)
        vectors += added * (noise / np.sqrt(vectors.shape[1]))
        yield vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _digest(folder: Path) -> str:
    digest = xxhash.xxh3_64()
    for name in ("vectors.npy", "offsets.npy", "queries.npy"):
        with (folder / name).open("rb") as content:
            while block := content.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()
