"""Cross-encoders on this machine: `hf:MODEL_OR_FOLDER`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colrank.config import CascadeConfig
from colrank.encoder.encoder import length_batches
from colrank.errors import ColRankError, InputError, StageFailed, first_line
from colrank.rerankers.base import LOGIT, Reranked, sigmoid
from colrank.rerankers.pair_model import PairModel, Pairs, check_pair_model, load_pair_model
from colrank.rerankers.windows import best_of, fit
from colrank.types import Usage

BATCH_PAIRS = 32

BATCH_TOKENS = 2048
"""Padded tokens of a batch on the CPU. Six layers of 384 dimensions, 50 pairs of 17 to 512 tokens (7,847 in
all), float32, on two cores: 1.7 to 1.9 s with 512 or 1,024 tokens a batch, 1.9 to 2.0 s with 2,048, 2.5 s
with 4,096, 3.1 s with 8,192; 5.1 s in batches of 32 by length, 5.3 s in batches of 32 as they come, 8.9 s in
one. Where the cores were busy with other work, 2,048 was the fastest of the first three."""

DEVICE_BATCH_TOKENS = 16384
"""The same elsewhere: as many as 32 pairs of 512 tokens, which were not measured."""

_LEAST_ROOM = 8


@dataclass(frozen=True, slots=True)
class _Read:
    """What is put to the model: pairs, the text of each, and how many texts lost their end."""

    pairs: Pairs
    owners: NDArray[np.int64]
    cut: int


class CrossEncoderReranker:
    """Reads the query and a text together, and gives the sigmoid of the model's logit.

    The logit is taken before the activation that the model was saved with, so that exactly one sigmoid is
    applied whatever that was. In float32 a pair's score is the same alone and in any batch to 1e-5;
    float16 and bfloat16 keep that only to their own precision.

    Args:
        model: name on the hub or folder of a `sentence_transformers.CrossEncoder`, or of a causal language
            model that this class reads as one. It is loaded by the first call of `score` or `load`.
        config: `rerank_max_length`, `rerank_windows`, `rerank_instruction` (a chat's only),
            `rerank_device`, `rerank_dtype`, `rerank_backend`.

    Raises:
        ModelError: there is no such folder.
        MissingExtra: the backend's packages are not installed.
        InputError: an option does not fit.
    """

    listwise = False
    steady = True

    def __init__(self, model: str, config: CascadeConfig) -> None:
        self.name = f"hf:{model}"
        self._model = model
        self._config = config
        if config.rerank_url is not None:
            raise InputError(f"{self.name} runs on this machine and has no address; leave rerank_url out.")
        check_pair_model(model, config.rerank_dtype, config.rerank_backend)

    def load(self) -> PairModel:
        """Load the model unless this process has it.

        Raises:
            ModelError: it cannot be loaded, or gives no score of relevance.
            InputError: this machine does not have the device, or an option does not fit the model.
        """
        config = self._config
        loaded = load_pair_model(
            self._model, config.rerank_device, config.rerank_dtype, config.rerank_backend
        )
        if (config.rerank_max_length or 0) > loaded.most_tokens:
            raise InputError(
                f"rerank_max_length is {config.rerank_max_length}, but {self.name} reads at most "
                f"{loaded.most_tokens} tokens, query and text together."
            )
        if config.rerank_instruction and not loaded.chat:
            raise InputError(
                f"{self.name} takes no instruction in words; leave rerank_instruction out, or name a "
                "language model."
            )
        return loaded

    def score(self, query: str, texts: Sequence[str]) -> Reranked:
        """Score each text for the query.

        A text that does not fit beside the query loses its end, and is counted in `usage.cut`; under
        `rerank_windows` it is read in overlapping windows instead, each a pair of its own, and gets the
        score of the best. `usage.seconds` is the time of the forward passes alone, without tokenizing.

        Returns:
            Scores in [0, 1] and the logits that they are made of, float64 `[texts]`.

        Raises:
            InputError: the query leaves no room for a text, or an option does not fit the model.
            ModelError: the model cannot be loaded, or gives no score of relevance.
            StageFailed: the model broke while scoring, or gave numbers that are not finite.
        """
        if not texts:
            return Reranked(np.zeros(0), np.zeros(0), LOGIT, Usage(tokens=0, cut=0))
        model = self.load()
        limit = self._config.rerank_max_length or model.most_tokens
        try:
            with model.lock:
                read = self._read(model, query, texts, limit)
                logits, seconds = self._logits(model, read.pairs)
        except ColRankError:
            raise
        # Out of memory, a device that went away: whatever torch and the model make of it.
        except Exception as error:
            raise StageFailed(
                f"The reranker {self.name} failed while it scored ({first_line(error)})."
            ) from error
        if not np.isfinite(logits).all():
            raise StageFailed(
                f"The reranker {self.name} gave scores that are not finite numbers; try rerank_dtype float32."
            )
        raw = best_of(logits, read.owners, len(texts))
        lengths = read.pairs.lengths
        usage = Usage(pairs=len(lengths), tokens=sum(lengths), cut=read.cut, seconds=seconds)
        return Reranked(sigmoid(raw), raw, LOGIT, usage, (*model.notes, *self._told(read.cut, texts, limit)))

    def _read(self, model: PairModel, query: str, texts: Sequence[str], limit: int) -> _Read:
        instruction = self._config.rerank_instruction

        def encode(some: Sequence[str], longest: int | None = None) -> Pairs:
            return model.pairs(query, some, instruction, longest)

        pairs = encode(texts)
        lengths = pairs.lengths
        fitting = [row for row in range(len(texts)) if lengths[row] <= limit]
        long = [row for row in range(len(texts)) if lengths[row] > limit]
        if not long:
            return _Read(pairs, np.arange(len(texts)), 0)
        taken = encode([""]).lengths[0]
        room = limit - taken
        split = self._config.rerank_windows
        if room < (_LEAST_ROOM if split else 1):
            raise InputError(
                f"The query takes {taken} of the {limit} tokens that {self.name} reads, which leaves no room "
                "for a text; shorten it"
                + ("." if limit == model.most_tokens else ", or raise rerank_max_length.")
            )
        parts: list[str] = []
        owners: list[int] = []
        for row in long:
            pieces = [texts[row]]
            if split:
                pieces = fit(
                    texts[row],
                    model.spans(texts[row]),
                    room,
                    lambda some: [length - taken for length in encode(some).lengths],
                )
            elif model.chat:
                # Whatever the template puts behind the text, it is the text that gives way.
                pieces = [texts[row][: model.spans(texts[row])[:room][-1].end]]
            parts += pieces
            owners += [row] * len(pieces)
        more = encode(parts, None if split else limit)
        cut = set(owners)
        if split:
            cut = {owner for owner, length in zip(owners, more.lengths, strict=True) if length > limit}
            more = encode(parts, limit) if cut else more
        return _Read(_joined(pairs, fitting, more), np.array(fitting + owners, dtype=np.int64), len(cut))

    def _logits(self, model: PairModel, pairs: Pairs) -> tuple[NDArray[np.float64], float]:
        lengths = pairs.lengths
        logits = np.empty(len(lengths))
        seconds = 0.0
        tokens = BATCH_TOKENS if model.on_cpu else DEVICE_BATCH_TOKENS
        for rows in length_batches(lengths, tokens, BATCH_PAIRS):
            logits[rows], spent = model.logits(pairs, rows)
            seconds += spent
        return logits, seconds

    def _told(self, cut: int, texts: Sequence[str], limit: int) -> list[str]:
        if not cut:
            return []
        one = cut == 1
        return [
            f"{cut} of {len(texts)} texts {'is' if one else 'are'} longer than the {limit} tokens that "
            f"{self.name} reads with the query, and {'its' if one else 'their'} end was not judged; "
            "--rerank-windows reads all of it."
        ]


def _joined(pairs: Pairs, rows: Sequence[int], more: Pairs) -> Pairs:
    kept = pairs.chosen(rows)
    return Pairs({name: kept[name] + list(more.columns[name]) for name in kept}, pairs.shared)
