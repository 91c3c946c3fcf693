"""The cascade over an index's own hits: what its stages need of the index, the model and the languages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from colrank.cascade import Step, steps, titled
from colrank.config import By, CascadeConfig
from colrank.encoder import Encoder
from colrank.errors import InputError
from colrank.explain import row_of_hit
from colrank.index import Snapshot
from colrank.judge import fallback_sentence
from colrank.language import main_language
from colrank.passages import encoder_input
from colrank.rerankers import Reranker, load_reranker
from colrank.rerankers.languages import language_warnings
from colrank.rerankers.late import LateReranker
from colrank.rerankers.registry import EXACT
from colrank.score import QueryVectors
from colrank.shards import token_rows
from colrank.types import Hit, Vectors


@dataclass(frozen=True)
class IndexCascade:
    """The stages after a search in one snapshot.

    Args:
        snapshot: where the hits come from.
        config: which stages, and their settings.
        encoder: gives the index's model; None for an index of given vectors.
        prepare: encodes and weighs a query's text for the snapshot.

    Raises:
        InputError, ModelError, MissingExtra: as `colrank.rerankers.load_reranker`.
    """

    snapshot: Snapshot
    config: CascadeConfig
    reranker: Reranker | None
    exact: bool

    @classmethod
    def load(
        cls,
        snapshot: Snapshot,
        config: CascadeConfig,
        encoder: Callable[[], Encoder] | None,
        prepare: Callable[[str], QueryVectors],
    ) -> IndexCascade:
        """Load what the configuration names; models are loaded once a process."""

        def exact() -> Reranker:
            if encoder is None:
                raise InputError(
                    "The reranker exact encodes texts again with the index's model, and the index was made "
                    "from given vectors; name another one."
                )
            return LateReranker(EXACT, prepare, encoder().encode_texts)

        return cls(snapshot, config, load_reranker(config, exact), config.rerank == EXACT)

    def steps(
        self, k: int, by: By, config: CascadeConfig | None = None, reranker: Reranker | None = None
    ) -> list[tuple[str, Step]]:
        """The stages in order; another configuration or reranker stands in for the loaded one."""
        chosen = config or self.config
        asked = reranker or self.reranker
        languages = self.snapshot.contents.counts.language_tokens
        return steps(
            chosen,
            k,
            by=by,
            reranker=asked,
            vectors=self.vectors,
            texts=self._encoded if self.exact else titled,
            fallback=fallback_sentence(main_language(languages, "en")),
            warnings=language_warnings(asked, languages),
        )

    def vectors(self, hits: Sequence[Hit]) -> list[Vectors]:
        """Decoded token vectors of hits, of unit length, in the codec's space, where likeness is the same."""
        contents = self.snapshot.contents
        asked = np.array([row_of_hit(self.snapshot, hit) for hit in hits], dtype=np.int64)
        order = np.argsort(asked)
        rows = asked[order]
        lengths = contents.offsets[rows + 1] - contents.offsets[rows]
        decoded = contents.vectors.codec.decode(contents.vectors.take(token_rows(rows, contents.offsets)))
        flat = decoded.astype(np.float32)
        flat /= np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-6)
        blocks = np.split(flat, np.cumsum(lengths)[:-1])
        return [blocks[place] for place in np.argsort(order)]

    def _encoded(self, hits: Sequence[Hit]) -> list[str]:
        """What the index's model was given for each hit."""
        contents = self.snapshot.contents
        passages = contents.passages([row_of_hit(self.snapshot, hit) for hit in hits])
        documents = contents.documents([passage.document for passage in passages])
        given = [document.id for document in documents if not document.encoded]
        if given:
            raise InputError(
                f"The reranker exact encodes texts again, and {given[0]!r} was added as vectors; name "
                "another reranker."
            )
        pairs = zip(documents, passages, strict=True)
        return [encoder_input(document.prefix_of(passage), passage.text) for document, passage in pairs]
