"""A cross-encoder as loaded, once a process: pairs into token ids, token ids into logits."""

from __future__ import annotations

import importlib
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colrank.encoder.checkpoint import AbsentTensors, most_tokens, quiet, resolve_device, resolve_dtype
from colrank.errors import InputError, MissingExtra, ModelError, first_line
from colrank.types import Span

_REMEDY = "give the folder of a cross-encoder or its name on the hub"
_PACKAGES = {"onnx": ("optimum.onnxruntime", "onnxruntime"), "openvino": ("optimum.intel", "openvino")}
_RELEVANT = {"relevant", "positive", "yes", "true", "match", "entailment", "duplicate"}
_IRRELEVANT = {
    *("irrelevant", "negative", "no", "false", "mismatch", "non_relevant", "nonrelevant"),
    *(f"not_{word}" for word in _RELEVANT),
}

_loaded: dict[tuple[str, str, str, str], PairModel] = {}
_loading = threading.Lock()


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of a query and a text as token ids, not padded: a list for each column and pair."""

    columns: Mapping[str, list[list[int]]]
    shared: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each pair, with those that the model adds."""
        return [len(ids) for ids in self.columns["input_ids"]]

    def chosen(self, rows: Sequence[int]) -> dict[str, list[list[int]]]:
        """The columns of some pairs."""
        return {name: [column[row] for row in rows] for name, column in self.columns.items()}


class PairModel:
    """A loaded cross-encoder. Calls from several threads take turns under `lock`, which the caller holds.

    Attributes:
        most_tokens: the longest pair that it reads, in its own tokens.
        chat: whether a pair is put to it as a chat, with which an instruction in words can go.
        notes: what the user should know of how its output is read.
    """

    def __init__(self, name: str, model: Any) -> None:
        self.lock = threading.Lock()
        self._model = _prepared(model)
        self._tokenizer = model.tokenizer
        if self._tokenizer is None or not getattr(self._tokenizer, "is_fast", False):
            raise ModelError(
                f"The model {name!r} has no fast tokenizer, which texts are cut with; {_REMEDY}."
            )
        self.most_tokens = most_tokens(model.config, self._tokenizer)
        self.chat = "message" in model.modalities
        self._prompt = model.prompts.get(model.default_prompt_name)
        self._labels = int(model.num_labels)
        self._relevant, self.notes = _relevant_label(name, self._labels, model.config)

    @property
    def on_cpu(self) -> bool:
        """Whether it runs on the processor."""
        return str(self._model.device) == "cpu"

    def pairs(
        self, query: str, texts: Sequence[str], instruction: str | None = None, limit: int | None = None
    ) -> Pairs:
        """Tokenize the query with each text, at least one.

        Args:
            query, texts: as they are; an empty text is a text.
            instruction: stands in for the prompt that the model was saved with.
            limit: cut the text, never the query, so that a pair has at most so many tokens; None cuts
                nothing.
        """
        # A chat is one text to its tokenizer; the library keeps the end of the template when that is cut.
        cut: str | bool = True if self.chat else "only_second"
        how: dict[str, Any] = {"padding": False, "verbose": False, "truncation": bool(limit) and cut}
        if limit:
            how["max_length"] = limit
        features = self._model.preprocess(
            [(query, text) for text in texts],
            prompt=instruction or self._prompt,
            processing_kwargs={"text": how, "common": {"return_tensors": None}},
        )
        columns = {name: value for name, value in features.items() if isinstance(value, list)}
        return Pairs(columns, {name: value for name, value in features.items() if name not in columns})

    def spans(self, text: str) -> list[Span]:
        """Characters of each token of a text, without the tokens that the model adds, never cut."""
        encoded = self._tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False
        )
        return [Span(start, end) for start, end in encoded["offset_mapping"]]

    def logits(self, pairs: Pairs, rows: Sequence[int]) -> tuple[NDArray[np.float64], float]:
        """Read some pairs in one batch.

        Returns:
            The logit of each, float64 `[rows]`, before any activation: of two labels it is the log odds,
            which a sigmoid turns into what a softmax over both gives. And the seconds of the forward pass,
            without tokenizing, padding and moving to the device.
        """
        import torch
        from sentence_transformers.util import batch_to_device

        padded = self._tokenizer.pad(pairs.chosen(rows), return_tensors="pt", verbose=False)
        features = batch_to_device({**padded, **pairs.shared}, self._model.device)
        begin = time.perf_counter()
        with torch.inference_mode():
            # Fetching the result waits for the device.
            scores = self._model(features)["scores"].float().cpu().numpy()
        seconds = time.perf_counter() - begin
        table = scores.astype(np.float64).reshape(len(rows), self._labels)
        if self._labels == 1:
            return table[:, 0], seconds
        return table[:, self._relevant] - table[:, 1 - self._relevant], seconds


def check_pair_model(name: str, dtype: str, backend: str) -> None:
    """Refuse what can be seen to fail without loading anything.

    Raises:
        ModelError: the name is that of a folder, and there is none.
        MissingExtra: the backend's packages are not installed.
        InputError: the backend does not run in this precision.
    """
    if not name.strip() or (_looks_like_path(name) and not Path(name).expanduser().is_dir()):
        raise ModelError(f"There is no model folder {name!r}; {_REMEDY}.")
    if backend == "torch":
        return
    try:
        for package in _PACKAGES[backend]:
            importlib.import_module(package)
    except ImportError as error:
        raise MissingExtra(
            f"The backend {backend} needs packages that are not installed; install them (pip install "
            f"'sentence-transformers[{backend}]') or use torch."
        ) from error
    if dtype != "float32":
        raise InputError(f"rerank_dtype is {dtype}; the backend {backend} runs a model as it was exported.")


def load_pair_model(name: str, device: str | None, dtype: str, backend: str) -> PairModel:
    """The cross-encoder of that name, loaded at the first call of the process.

    Raises:
        InputError: this machine does not have the device, or the backend does not run in this precision.
        MissingExtra: the backend's packages are not installed.
        ModelError: there is no such model, it cannot be loaded, lacks the weights that make a score, or
            gives more than two labels.
    """
    check_pair_model(name, dtype, backend)
    folder = Path(name).expanduser()
    place = str(folder.resolve()) if folder.is_dir() else name
    key = (place, resolve_device(device), dtype, backend)
    with _loading:
        if key not in _loaded:
            _loaded[key] = _load(name, *key)
        return _loaded[key]


def _load(name: str, place: str, device: str, dtype: str, backend: str) -> PairModel:
    from sentence_transformers import CrossEncoder

    options: dict[str, Any] = {"dtype": resolve_dtype(dtype)} if backend == "torch" else {}
    absent = AbsentTensors()
    try:
        with quiet(), absent:
            model: Any = CrossEncoder(place, device=device, backend=backend, model_kwargs=options)
            loaded = PairModel(name, model)
            if getattr(model[0], "transformer_task", "") != "sequence-classification":
                # A head of its own reads the tokens, not BERT's pooler.
                absent.names = [each for each in absent.names if "pooler" not in each]
            if not absent.names:
                # A tokenizer or chat template that cannot take a pair shows here, not at the first query.
                loaded.pairs("query", ["text"])
    except ModelError:
        raise
    # The libraries below raise whatever the damaged file or the absent hub made them raise.
    except Exception as error:
        raise ModelError(
            f"Cannot load the cross-encoder {name!r} ({first_line(error)}); {_REMEDY}."
        ) from error
    if absent.names:
        raise ModelError(
            f"The model {name!r} lacks {absent.names[0]}, without which a score is a random number; an "
            "encoder is no reranker: name a cross-encoder, such as hf:BAAI/bge-reranker-v2-m3."
        )
    return loaded


def _prepared(model: Any) -> Any:
    """The model, set to give logits of padded batches."""
    import torch

    for module in model:
        ends = getattr(module, "module_output_name", None) == "scores"
        if ends and isinstance(getattr(module, "activation_function", None), torch.nn.Sigmoid):
            module.activation_function = torch.nn.Identity()
    if hasattr(model[0], "unpad_inputs"):
        model[0].unpad_inputs = False
    return model.eval()


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or name.count("/") > 1


def _relevant_label(name: str, labels: int, config: Any) -> tuple[int, tuple[str, ...]]:
    """Which output says that a text is relevant, and what to tell the user of it."""
    if labels == 1:
        return 0, ()
    named = dict(getattr(config, "id2label", None) or {})
    names = [str(named.get(label, f"label {label}")) for label in range(labels)]
    if labels > 2:
        raise ModelError(
            f"The model {name!r} tells {labels} labels apart ({', '.join(names)}) and gives no score of "
            "relevance; name a reranker of one label, such as hf:BAAI/bge-reranker-v2-m3."
        )
    words = [re.sub(r"\W+", "_", word.strip().lower()) for word in names]
    first = words[0] in _RELEVANT or words[1] in _IRRELEVANT
    second = words[1] in _RELEVANT or words[0] in _IRRELEVANT
    relevant = int(not first or second)
    return relevant, (
        f"The reranker {name} tells two labels apart; label {relevant} ({names[relevant]}) is taken as the "
        "relevant one.",
    )
