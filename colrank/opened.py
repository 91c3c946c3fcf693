"""What an opened index is made of: its folder, its snapshot, its model, and queries for them."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from colrank.builder import check_vectors
from colrank.config import EMBEDDED_MODEL, EncoderConfig
from colrank.encoder import Encoder, load_encoder
from colrank.errors import InputError, ModelMismatch, ProjectionMisfit
from colrank.index import Manifest, Snapshot, open_snapshot
from colrank.score import QueryVectors
from colrank.search import Query

QueryInput: TypeAlias = str | NDArray[Any]
"""A query: its text, or its token vectors `[tokens, dim]`."""


class Opened:
    """An index that is open, or about to be made; `colrank.api.ColRank` is what users see of it."""

    def __init__(self, path: Path, settings: Manifest, config: EncoderConfig | None) -> None:
        self.path = path
        self._settings = settings
        self._config = config
        self._encoder: Encoder | None = None
        self._snapshot: Snapshot | None = None
        self._fresh = True
        self._overwrite = False
        self._prefilter = True
        self._loading = threading.Lock()

    @property
    def encoder(self) -> Encoder:
        """The model, loaded on first use.

        Raises:
            InputError: the index was made from given vectors.
            ModelMismatch: the model found is not the one that the index was made with.
        """
        with self._loading:
            if self._encoder is None:
                if self._config is None:
                    raise InputError(
                        f"{self.path} was made from given vectors without a model; add vectors to it, and "
                        "search it with vectors."
                    )
                expected = self._settings.model
                try:
                    encoder = load_encoder(self._config)
                except ProjectionMisfit as error:
                    if expected is None:
                        raise
                    raise ModelMismatch(
                        f"{self.path} was made with the model {expected.name}, and {self._config.model} has "
                        "another dimension; name the index's model."
                    ) from error
                if expected is not None and not encoder.fingerprint.same_vectors(expected):
                    raise ModelMismatch(
                        f"{self.path} was made with the model {expected.name} (weights "
                        f"{_short(expected.weights)}) and the query would be encoded with {encoder.name} "
                        f"(weights {_short(encoder.fingerprint.weights)}, or other settings); name the "
                        "index's model."
                    )
                # A reopened index goes on with its own passage length, not the checkpoint's.
                encoder.text_budget(self._settings.passage_tokens or None)
                self._encoder = encoder
            return self._encoder

    @property
    def snapshot(self) -> Snapshot:
        """The generation that this object searches.

        Raises:
            InputError: nothing was indexed yet.
        """
        if self._snapshot is None:
            raise InputError(f"Nothing was indexed in {self.path} yet; add documents before searching.")
        return self._snapshot

    def __len__(self) -> int:
        """Number of documents."""
        return 0 if self._snapshot is None else self._snapshot.contents.counts.documents

    def __repr__(self) -> str:
        return f"ColRank({str(self.path)!r}, documents={len(self)})"

    def prepare(self, inputs: Sequence[QueryInput], snapshot: Snapshot) -> list[Query]:
        """Encode and weigh queries for a snapshot, in the given order."""
        texts = [value for value in inputs if isinstance(value, str)]
        encoded = iter(self.encoder.encode_queries(texts) if texts else [])
        queries = []
        for number, value in enumerate(inputs, start=1):
            if isinstance(value, str):
                query = next(encoded)
                weights = np.ones(len(query.token_ids), dtype=np.float32)
                if snapshot.weighted:
                    weights = snapshot.frequencies.weights(query.token_ids, query.special)
                queries.append(Query(QueryVectors(query.vectors, weights), query))
            else:
                vectors = check_vectors(f"query {number}", value, snapshot.manifest.dim)
                queries.append(Query(QueryVectors(vectors, np.ones(len(vectors), dtype=np.float32))))
        return queries

    def refresh(self) -> bool:
        """Move on to the newest generation; whether there was a newer one.

        Searches that run keep the generation that they began with.

        Raises:
            ModelMismatch: the index was replaced by one of another model.
        """
        newest = open_snapshot(self.path)
        if self._snapshot is not None and newest.manifest.generation == self._snapshot.manifest.generation:
            return False
        self._check_same(newest.manifest)
        self._snapshot, self._settings, self._fresh = newest, newest.manifest, False
        return True

    def _check_same(self, manifest: Manifest) -> None:
        held = self._settings
        if not self._fresh and (manifest.model != held.model or manifest.dim != held.dim):
            raise ModelMismatch(
                f"{self.path} was replaced by an index of another model since it was opened; open it again."
            )


def model_location(index: Path, model: str) -> str:
    """Where the model is, without an absolute path: a folder relative to the index, or the hub name."""
    folder = Path(model).expanduser()
    if model == EMBEDDED_MODEL or not folder.is_dir():
        return model
    relative = Path(os.path.relpath(folder.resolve(), index.resolve())).as_posix()
    return relative if relative.startswith(".") else f"./{relative}"


def located_model(index: Path, location: str) -> str:
    """The inverse of `model_location`: only a folder's location begins with a dot."""
    return str(index / location) if location.startswith(".") else location


def _short(weights: str) -> str:
    return weights[:20]
