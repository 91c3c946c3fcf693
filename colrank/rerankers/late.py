"""Late interaction as reranker: float32 MaxSim of the index's own model (`exact`) or of another one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colrank.codec import whole_vectors
from colrank.config import CascadeConfig, EncoderConfig
from colrank.encoder import EncodedQuery, Encoder, load_encoder
from colrank.errors import InputError, StageFailed, first_line
from colrank.rerankers.base import MAXSIM, Reranked, refuse_options
from colrank.rerankers.windows import best_of, fit
from colrank.score import QueryVectors, exact_scores
from colrank.shards import TokenVectors
from colrank.types import Usage, Vectors

_loaded: dict[tuple[str, str | None, str, int | None], tuple[Encoder, int]] = {}
_loading = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Parts:
    """What is encoded of some texts: parts, the text of each, and how many texts lose their end."""

    parts: Sequence[str]
    owners: NDArray[np.int64]
    cut: int = 0


class LateReranker:
    """Scores a text by MaxSim of float32 vectors: sum over query tokens of weight x largest dot product.

    The score is (1 + m) / 2, where m in [-1, 1] is the weighted mean of the largest dot products, MaxSim over
    the sum of the weights. A text without vectors gets none.

    Args:
        name: `exact`, or `colbert:MODEL`.
        encode_query: a query's unit vectors and weights.
        encode_texts: float32 unit vectors `[tokens, dim]` of each text.
    """

    listwise = False
    steady = True

    def __init__(
        self,
        name: str,
        encode_query: Callable[[str], QueryVectors],
        encode_texts: Callable[[Sequence[str]], list[Vectors]],
    ) -> None:
        self.name = name
        self._encode_query = encode_query
        self._encode_texts = encode_texts

    def score(self, query: str, texts: Sequence[str]) -> Reranked:
        """Score each text for the query.

        In the usage, `tokens` counts vectors: the query's once and those of the texts; `seconds` is the time
        of encoding both, tokenizing included.

        Returns:
            Scores in [0, 1] and the MaxSim sums that they are made of, float64 `[texts]`; NaN for both where
            a text has no vectors.

        Raises:
            InputError: the query is blank, or the model knows none of its tokens.
            StageFailed: the model broke while encoding.
        """
        if not texts:
            return Reranked(np.zeros(0), np.zeros(0), MAXSIM, Usage(tokens=0, cut=0))
        try:
            begin = time.perf_counter()
            asked, warnings = self._query(query)
            read = self._parts(texts)
            vectors = self._encode_texts(read.parts)
            seconds = time.perf_counter() - begin
        except InputError:
            raise
        # Out of memory, vectors that are not finite: whatever the model makes of it.
        except Exception as error:
            raise StageFailed(
                f"The reranker {self.name} failed while it encoded ({first_line(error)})."
            ) from error
        raw = best_of(_maxsim(asked, vectors), read.owners, len(texts))
        weight = float(asked.weights.sum(dtype=np.float64))
        mean = np.clip(raw / weight, -1, 1) if weight > 0 else np.full(len(texts), np.nan)
        if read.cut:
            warnings.append(
                f"{read.cut} of {len(texts)} texts {'is' if read.cut == 1 else 'are'} longer than "
                f"{self.name} reads, and what is beyond was not judged; --rerank-windows reads all of it."
            )
        usage = Usage(
            pairs=len(read.parts),
            tokens=len(asked.vectors) + sum(map(len, vectors)),
            cut=read.cut,
            seconds=seconds,
        )
        return Reranked((1 + mean) / 2, raw, MAXSIM, usage, tuple(warnings))

    def _query(self, query: str) -> tuple[QueryVectors, list[str]]:
        return self._encode_query(query), []

    def _parts(self, texts: Sequence[str]) -> _Parts:
        return _Parts(texts, np.arange(len(texts)))


class OtherModelReranker(LateReranker):
    """The same with a late-interaction model that is not the index's.

    Args:
        name: `colbert:MODEL`.
        encoder: the loaded model.
        budget: tokens that a text may have beside the model's markers.
        split: score overlapping windows of a longer text, and take the best; else its end is not read.
    """

    def __init__(self, name: str, encoder: Encoder, budget: int, split: bool) -> None:
        super().__init__(name, self._unweighted, encoder.encode_texts)
        self._encoder = encoder
        self._budget = budget
        self._split = split

    def _encoded(self, query: str) -> EncodedQuery:
        return self._encoder.encode_queries([query])[0]

    def _unweighted(self, query: str) -> QueryVectors:
        return _without_weights(self._encoded(query))

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(self._encoder.token_spans(text)) for text in texts]

    def _query(self, query: str) -> tuple[QueryVectors, list[str]]:
        encoded = self._encoded(query)
        told = []
        if encoded.cut:
            told.append(
                f"The query lost its last {encoded.cut} tokens: {self.name} reads at most "
                f"{self._encoder.query_length}."
            )
        return _without_weights(encoded), told

    def _parts(self, texts: Sequence[str]) -> _Parts:
        if not self._split:
            cut = sum(length > self._budget for length in self._lengths(texts))
            return _Parts(texts, np.arange(len(texts)), cut)
        parts: list[str] = []
        owners: list[int] = []
        for row, text in enumerate(texts):
            found = fit(text, self._encoder.token_spans(text), self._budget, self._lengths)
            parts += found
            owners += [row] * len(found)
        return _Parts(parts, np.array(owners, dtype=np.int64))


def load_late(model: str, config: CascadeConfig) -> LateReranker:
    """The reranker `colbert:MODEL`; its encoder is loaded once a process.

    Args:
        model: a late-interaction checkpoint, as `EncoderConfig.model`.
        config: `rerank_max_length` (tokens of a text with the model's markers), `rerank_windows`,
            `rerank_device`, `rerank_dtype`.

    Raises:
        ModelError: the model cannot be found, loaded or used.
        InputError: an option does not fit the model, or this machine does not have the device.
        MissingExtra: the embedded model is asked for and not installed.
    """
    name = f"colbert:{model}"
    refuse_options(name, config, ("rerank_url", "rerank_instruction"))
    if config.rerank_backend != "torch":
        raise InputError(f"{name} runs with the backend torch, not {config.rerank_backend}.")
    # The length is set in the encoder itself, so that each has one of its own.
    key = (model, config.rerank_device, config.rerank_dtype, config.rerank_max_length)
    with _loading:
        if key not in _loaded:
            encoder = load_encoder(EncoderConfig(model, config.rerank_device, config.rerank_dtype))
            _loaded[key] = (encoder, _budget(name, encoder, config.rerank_max_length))
        return OtherModelReranker(name, *_loaded[key], config.rerank_windows)


def _budget(name: str, encoder: Encoder, length: int | None) -> int:
    if length is not None and length > encoder.most_tokens:
        raise InputError(
            f"rerank_max_length is {length}, but {name} reads at most {encoder.most_tokens} tokens of a text."
        )
    try:
        return encoder.text_budget(length)
    except InputError as error:
        raise InputError(
            f"rerank_max_length is {length}, which leaves {name} no room for text; raise it."
        ) from error


def _without_weights(query: EncodedQuery) -> QueryVectors:
    return QueryVectors(query.vectors, np.ones(len(query.vectors), dtype=np.float32))


def _maxsim(query: QueryVectors, vectors: Sequence[Vectors]) -> NDArray[np.float64]:
    """MaxSim of each text, rounded to float32, as float64 `[texts]`; NaN for a text without vectors."""
    lengths = np.array([len(each) for each in vectors], dtype=np.int64)
    scores = np.full(len(vectors), np.nan)
    rows = np.flatnonzero(lengths)
    if not len(rows):
        return scores
    flat = np.concatenate([each for each in vectors if len(each)]).astype(np.float32, copy=False)
    held = TokenVectors(whole_vectors(flat.shape[1], 32), [{"vector": flat}])
    scores[rows] = exact_scores(query, rows, held, np.concatenate([[0], np.cumsum(lengths)]))
    return scores
