"""The encoder: passages and queries into unit vectors, and tokens back into characters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colrank.config import EMBEDDED_MODEL, EncoderConfig
from colrank.encoder import embedded
from colrank.encoder.checkpoint import (
    hash_checkpoint,
    load_checkpoint,
    most_tokens,
    quiet,
    resolve_device,
    resolve_dtype,
)
from colrank.encoder.projection import fixed_projection, fixed_projection_hash, kept_dimensions
from colrank.errors import InputError, ModelError, ProjectionMisfit
from colrank.types import Span, Vectors, is_utf8

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder

BATCH_TOKENS = 4096
BATCH_PASSAGES = 64


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Everything that decides a model's vectors, and nothing that does not (device, precision)."""

    name: str
    weights: str
    dim: int
    projection: str
    query_prompt: str
    document_prompt: str
    query_length: int
    query_expansion: str
    skiplist: str

    def to_json(self) -> dict[str, Any]:
        """As a dictionary for the manifest."""
        return asdict(self)

    def same_vectors(self, other: Fingerprint) -> bool:
        """Whether both encode alike; the name does not matter."""
        return {**asdict(self), "name": ""} == {**asdict(other), "name": ""}


@dataclass(frozen=True, slots=True)
class EncodedQuery:
    """One query's vectors, the token id of each and its spelling, and what was done to it.

    `special` marks tokens that the model adds (markers, expansion); `cut` is how many tokens did not
    fit the model's query length.
    """

    text: str
    vectors: Vectors
    token_ids: NDArray[np.int64]
    tokens: tuple[str, ...]
    special: NDArray[np.bool_]
    cut: int = 0


class Encoder:
    """A loaded late-interaction model. Calls from several threads take turns."""

    def __init__(
        self,
        model: MultiVectorEncoder,
        *,
        name: str,
        weights: str,
        dtype: Any,
        projection: NDArray[np.float32] | None,
        projection_name: str,
        kept: int | None = None,
        passage_tokens: int | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        import torch

        self._model = model.to(dtype).eval()
        self._lock = threading.Lock()
        self.name = name
        self.device = str(model.device)
        self.notes = list(notes)
        self._projection = None if projection is None else torch.tensor(projection, device=model.device)
        tokenizer: Any = model.tokenizer
        self._tokenizer = tokenizer
        self._transformer: Any = model[0]
        # The unknown token stands for a word of the text; the others are added to it.
        added = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
        self._special_ids = np.array(sorted(added), dtype=np.int64)
        self._nothing_ids = np.array(sorted(set(tokenizer.all_special_ids)), dtype=np.int64)
        self._query_prompt = model.prompts.get("query") or ""
        self._document_prompt = model.prompts.get("document") or ""
        self.most_tokens = most_tokens(self._transformer.config, tokenizer)
        own = getattr(self._transformer, "document_length", None) or self.most_tokens
        self.default_passage_tokens = min(passage_tokens or own, self.most_tokens)
        raw_dim = model.get_embedding_dimension()
        if raw_dim is None:
            raise ModelError(f"The model {name!r} does not say how many dimensions its token vectors have.")
        if projection is not None and projection.shape[0] != raw_dim:
            raise ProjectionMisfit(
                f"The fixed projection is for {projection.shape[0]} dimensions, and the model {name!r} "
                f"has {raw_dim}; use projection none."
            )
        dim = raw_dim if projection is None else int(projection.shape[1])
        if kept is not None and kept > dim:
            raise ProjectionMisfit(
                f"truncate:{kept} keeps {kept} dimensions, and the model {name!r} has {dim}; ask for fewer."
            )
        self._kept = kept or dim
        expansion = getattr(self._transformer, "query_expansion", None)
        self.query_length = self._query_limit(expansion)
        self.fingerprint = Fingerprint(
            name=name,
            weights=weights,
            dim=self._kept,
            projection=projection_name if kept is None else f"{projection_name}[:{kept}]",
            query_prompt=self._query_prompt,
            document_prompt=self._document_prompt,
            query_length=self.query_length,
            query_expansion=repr(sorted(expansion.items())) if expansion else "",
            skiplist=repr([module.get_config_dict() for module in self._masks()]),
        )

    @property
    def dim(self) -> int:
        """Dimensions of a token vector after projection."""
        return self.fingerprint.dim

    def _query_limit(self, expansion: dict[str, Any] | None) -> int:
        """Tokens that a query is cut to; an expansion of strategy "min" only fills up and cuts nothing."""
        if expansion and expansion["strategy"] == "fixed":
            if expansion["length"] > self.most_tokens:
                raise ModelError(
                    f"The model {self.name} expands queries to {expansion['length']} tokens but reads at "
                    f"most {self.most_tokens}; correct its query_expansion."
                )
            return int(expansion["length"])
        own = getattr(self._transformer, "query_length", None)
        if own and own > self.most_tokens:
            own = self._transformer.query_length = self.most_tokens
        return int(own or self.most_tokens)

    def _masks(self) -> list[Any]:
        from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

        return [module for module in self._model if isinstance(module, MultiVectorMask)]

    def token_spans(self, text: str) -> list[Span]:
        """Characters of each token of a text, without the tokens that the model adds, never cut."""
        with self._lock:
            encoded = self._tokenizer(
                text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False
            )
        return [Span(start, end) for start, end in encoded["offset_mapping"]]

    def text_budget(self, passage_tokens: int | None) -> int:
        """Tokens that title and text of a passage may have, and set the model to that length.

        Raises:
            InputError: more was asked for than the model can read.
        """
        length = passage_tokens or self.default_passage_tokens
        if length > self.most_tokens:
            raise InputError(
                f"passage_tokens is {length}, but the model {self.name} reads at most {self.most_tokens}."
            )
        self._transformer.document_length = length
        with self._lock:
            added = self._tokenizer.num_special_tokens_to_add()
            prompt = len(self._tokenizer(self._document_prompt, add_special_tokens=False)["input_ids"])
        if length - added - prompt < 4:
            raise InputError(f"passage_tokens is {length}: no room for text beside the model's markers.")
        return int(length - added - prompt)

    def encode_passages(
        self,
        inputs: Sequence[str],
        lengths: Sequence[int],
        done: Callable[[Sequence[int]], None] | None = None,
    ) -> list[tuple[Vectors, NDArray[np.int64]]]:
        """Encode a window of passages; batches are sorted by length and bounded in tokens.

        Args:
            inputs: what is encoded for each passage (`colrank.passages.encoder_input`).
            lengths: tokens of each, which decide its batch.
            done: called with the rows of each batch when it is finished.

        Returns:
            For each passage, in the given order, its unit vectors (float32 `[tokens, dim]`) and the
            token id of each.
        """
        out: list[Any] = [None] * len(inputs)
        with self._lock:
            for batch in length_batches(lengths, BATCH_TOKENS, BATCH_PASSAGES):
                encoded = self._forward([inputs[row] for row in batch], "document", self._document_prompt)
                for row, vectors_and_ids in zip(batch, encoded, strict=True):
                    out[row] = vectors_and_ids
                if done:
                    done(batch)
        return out

    def encode_texts(self, texts: Sequence[str]) -> list[Vectors]:
        """Unit vectors of passages, float32 `[tokens, dim]` each, in the given order."""
        lengths = [len(self.token_spans(text)) for text in texts]
        return [vectors for vectors, _ in self.encode_passages(texts, lengths)]

    def encode_queries(self, queries: Sequence[str]) -> list[EncodedQuery]:
        """Encode queries, each with the model's query prompt, length and expansion.

        Raises:
            InputError: a query is blank, or the tokenizer knows none of its tokens.
        """
        cuts = [self._check_query(query) for query in queries]
        with self._lock:
            begin = self._tokenizer(self._query_prompt)["input_ids"] if self._query_prompt else []
            encoded: list[tuple[Vectors, NDArray[np.int64]]] = []
            # On the CPU each goes alone, so that its vectors do not depend on its company to the last bit.
            size = 1 if self.device == "cpu" else BATCH_PASSAGES
            for start in range(0, len(queries), size):
                batch = list(queries[start : start + size])
                encoded += self._forward(batch, "query", self._query_prompt)
            return [
                EncodedQuery(
                    text,
                    vectors,
                    ids,
                    tuple(self._tokenizer.convert_ids_to_tokens(ids.tolist())),
                    np.isin(ids, self._special_ids)
                    | (np.arange(len(ids)) < _common_prefix(ids.tolist(), begin)),
                    cut,
                )
                for text, (vectors, ids), cut in zip(queries, encoded, cuts, strict=True)
            ]

    def _check_query(self, query: str) -> int:
        if not query.strip():
            raise InputError("The query is empty; give at least one word.")
        if not is_utf8(query):
            raise InputError(f"The query {query!a} holds bytes that are not UTF-8; give it in UTF-8.")
        with self._lock:
            ids = self._tokenizer(query, add_special_tokens=False, truncation=False, verbose=False)[
                "input_ids"
            ]
            prompt = self._tokenizer(self._query_prompt, add_special_tokens=False)["input_ids"]
            added = self._tokenizer.num_special_tokens_to_add() + len(prompt)
        if all(token == self._tokenizer.unk_token_id for token in ids):
            raise InputError(
                f"The model {self.name} knows no token of the query {query!r}; use words of its languages."
            )
        return int(max(0, len(ids) + added - self.query_length))

    def document_tokens(self, text: str) -> list[tuple[str, Span]]:
        """Token and characters behind each vector of a passage's encoder input, without encoding it.

        A marker, or the prompt, stands for no character: its span is (-1, -1).
        """
        prompt = self._document_prompt
        with self._lock:
            features: dict[str, Any] = dict(self._model.preprocess([text], prompt=prompt, task="document"))
            ids = features["input_ids"][0].tolist()
            for mask in self._masks():
                features = mask(features, task="document")
            kept = features["attention_mask"][0].bool().tolist()
            encoded = self._tokenizer(
                prompt + text, return_offsets_mapping=True, truncation=False, verbose=False
            )
            tokens = self._tokenizer.convert_ids_to_tokens(ids)
        same = _common_prefix(encoded["input_ids"], ids)
        out = []
        for row, token in enumerate(tokens):
            if not kept[row]:
                continue
            start, end = encoded["offset_mapping"][row] if row < same else (0, 0)
            start, end = max(0, start - len(prompt)), end - len(prompt)
            out.append((token, Span(start, end) if start < end else Span(-1, -1)))
        return out

    def passage_token_ids(self, inputs: Sequence[str]) -> list[NDArray[np.int64]]:
        """Token ids behind the vectors of passages, without encoding them."""
        out = []
        with self._lock:
            for text in inputs:
                features: dict[str, Any] = dict(
                    self._model.preprocess([text], prompt=self._document_prompt, task="document")
                )
                for mask in self._masks():
                    features = mask(features, task="document")
                out.append(features["input_ids"][0][features["attention_mask"][0].bool()].numpy())
        return out

    def is_marker(self, token_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which tokens the model adds to a text: bool `[tokens]`."""
        return np.isin(token_ids, self._special_ids)

    def knows_any(self, token_ids: NDArray[np.int64]) -> bool:
        """Whether any token is one of the text and known: neither added by the model nor the unknown one."""
        return not np.isin(token_ids, self._nothing_ids).all()

    def _forward(self, texts: list[str], task: str, prompt: str) -> list[tuple[Vectors, NDArray[np.int64]]]:
        """Encode one batch in one forward pass, then project and normalise all its tokens at once."""
        import torch

        rows: Any = self._model.encode(
            texts,
            prompt=prompt,
            batch_size=len(texts),
            show_progress_bar=False,
            output_value=None,
            task=task,
        )
        masks = [row["attention_mask"].bool() for row in rows]
        with torch.inference_mode():
            vectors = torch.cat(
                [row["token_embeddings"][m] for row, m in zip(rows, masks, strict=True)]
            ).float()
            if self._projection is not None:
                vectors = vectors @ self._projection
            vectors = torch.nn.functional.normalize(vectors[:, : self._kept], dim=-1)
        flat = vectors.cpu().numpy()
        ids = [row["input_ids"][m].cpu().numpy() for row, m in zip(rows, masks, strict=True)]
        if not np.isfinite(flat).all():
            raise ModelError(f"The model {self.name} gave vectors that are not finite; try --dtype float32.")
        ends = np.cumsum([len(row) for row in ids])[:-1]
        return list(zip(np.split(flat, ends), ids, strict=True))


def _common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two lists begin with alike."""
    return next(
        (row for row, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
        min(len(left), len(right)),
    )


def length_batches(lengths: Sequence[int], tokens: int, most: int) -> Iterator[list[int]]:
    """Rows of texts by length, longest first, in batches bounded in padded tokens and in texts.

    A text longer than the bound goes alone.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    batch: list[int] = []
    for row in order:
        longest = lengths[batch[0]] if batch else 0
        if batch and (longest * (len(batch) + 1) > tokens or len(batch) == most):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def load_encoder(config: EncoderConfig) -> Encoder:
    """Load the encoder that a configuration names.

    Raises:
        InputError: an unknown device, dtype or projection.
        MissingExtra: the embedded model is not installed.
        ModelError: the model cannot be found, loaded or used.
    """
    kept = kept_dimensions(config.projection)
    dtype = resolve_dtype(config.dtype)
    is_embedded = config.model == EMBEDDED_MODEL
    if is_embedded:
        embedded.model_folder()
    device = resolve_device(config.device)
    projected = config.projection == "fixed" or (is_embedded and config.projection != "none")
    projection = fixed_projection() if projected else None
    projection_name = fixed_projection_hash() if projected else "none"
    if is_embedded:
        with quiet():
            model = embedded.load_embedded(device)
        return Encoder(
            model,
            name=embedded.DISPLAY_NAME,
            weights=f"sha256:{embedded.WEIGHTS_SHA256}",
            dtype=dtype,
            projection=projection,
            projection_name=projection_name,
            kept=kept,
            passage_tokens=embedded.PASSAGE_TOKENS,
        )
    model, notes = load_checkpoint(config, device)
    folder = Path(config.model).expanduser()
    return Encoder(
        model,
        name=folder.resolve().name if folder.is_dir() else config.model,
        weights=hash_checkpoint(config.model),
        dtype=dtype,
        projection=projection,
        projection_name=projection_name,
        notes=notes,
    )
