"""Somebody else's candidates: read, and put through the stages after a search, without an index."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import numpy as np

from colrank.builder import check_vectors
from colrank.cascade import run_stages, steps
from colrank.config import EMBEDDED_MODEL, CascadeConfig, EncoderConfig, StageOptions, check_k
from colrank.encoder import Encoder, load_encoder
from colrank.errors import InputError
from colrank.evaluate.judgements import text_lines
from colrank.judge import fallback_sentence
from colrank.language import UNKNOWN, detect_language, main_language
from colrank.passages import Splitter, encoder_input
from colrank.rerankers import Reranker, load_reranker
from colrank.rerankers.languages import language_warnings
from colrank.rerankers.late import LateReranker
from colrank.rerankers.registry import EXACT
from colrank.score import QueryVectors
from colrank.types import Document, Hit, Hits, Problems, Vectors, is_utf8

Candidate: TypeAlias = str | Mapping[str, Any] | Hit
"""A text, or a dictionary of `text` and maybe `id`, `document`, `title`, `score` and `vector` (one array
`[dim]` or `[tokens, dim]`); what else it holds is its metadata."""

_KNOWN = frozenset(("id", "_id", "document", "title", "text", "score", "vector", "metadata"))
_SEARCHED = frozenset(("query", "query_id", "rank", "scores", "source", "start", "end", "tier", "unscored"))
"""What a line of `colrank search --json` holds beside."""


class _Text:
    """A query of text alone."""

    def __init__(self, text: str) -> None:
        self.text = text


def rerank(
    query: str,
    candidates: Sequence[Candidate],
    k: int = 10,
    *,
    reranker: Any = None,
    model: str = EMBEDDED_MODEL,
    device: str | None = None,
    dtype: str = "float32",
    trust_remote_code: bool = False,
    **cascade: Unpack[StageOptions],
) -> Hits:
    """Put candidates that another search found through reranker, judge and MMR.

    Args:
        query: its text.
        candidates: best first; where they have scores, these decide. All are read, however many.
        k: most hits in the end.
        reranker: a name (`colrank.rerankers.load_reranker`), or an object with `score(query, texts)`.
        model, device, dtype, trust_remote_code: the late-interaction model that encodes candidates without
            vectors for MMR, and that the reranker `exact` is.
        cascade: as in `ColRank.search`; `rerank` is another name of `reranker`.

    Returns:
        Hits with `scores["given"]`, the candidate's own score, or `scores["place"]`, which falls from 1 by
        its place among the candidates where they have none.

    Raises:
        InputError: a candidate is not what it should be, an id stands twice, or an option has an impossible
            value.
        ModelError, MissingExtra, StageFailed: as in `ColRank.search`.
    """
    k = check_k(k)
    if reranker is not None:
        if cascade.get("rerank") is not None:
            raise InputError("The reranker is named twice, by reranker and by rerank; leave one out.")
        cascade["rerank"] = reranker
    if not isinstance(query, str) or not query.strip() or not is_utf8(query):
        raise InputError(f"The query is {query!a}; give a text that is not empty.")
    if isinstance(candidates, str | bytes | Mapping) or not isinstance(candidates, Iterable):
        raise InputError(
            f"The candidates are {type(candidates).__name__}; give a list of texts, dictionaries or hits."
        )
    candidates = list(candidates)
    config = CascadeConfig(candidates=max(1, len(candidates)), **cascade)
    hits, given = _hits(query, candidates)
    encoding = EncoderConfig(model, device, dtype, trust_remote_code=trust_remote_code)
    # Loaded even where there is no candidate: a wrong name is told at once.
    loaded = load_reranker(config, lambda: _exact(encoding))
    languages = Counter(detect_language(hit.text) for hit in hits)
    stages = steps(
        config,
        k,
        reranker=loaded,
        vectors=lambda chosen: _vectors(chosen, given, encoding),
        fallback=fallback_sentence(main_language(languages, detect_language(query))),
        warnings=language_warnings(loaded, languages),
    )
    hits = run_stages(_Text(query), hits, stages)
    return hits if config.active else hits.having(hits[:k])


def read_candidates(path: Path) -> list[dict[str, Any]]:
    """Candidates of a file of JSON lines, such as `colrank search --json` prints; - is standard input.

    What that says of a whole query is passed over.

    Raises:
        InputError: the file cannot be read, or a line is not a JSON object with a text.
    """
    found = []
    for number, line in text_lines(path, "candidates"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} line {number} is not valid JSON.") from error
        if not isinstance(record, dict):
            raise InputError(f"{path} line {number} is not a JSON object with a text.")
        if "text" in record or "verdict" not in record:
            found.append(record)
    return found


def _hits(query: str, candidates: Sequence[Candidate]) -> tuple[Hits, dict[str, Vectors]]:
    """Candidates as hits, best first, and the vectors of those that brought some, by id."""
    found: list[Hit] = []
    given: dict[str, Vectors] = {}
    scored = 0
    # Beside scored ones, an unscored hit has the score of an earlier stage: only their order means anything.
    mixed = len({candidate.unscored for candidate in candidates if isinstance(candidate, Hit)}) > 1
    for number, candidate in enumerate(candidates, start=1):
        place = 1 - (number - 1) / len(candidates)
        if isinstance(candidate, Hit):
            name, score = ("place", place) if mixed else ("given", _number(number, candidate.score))
            # Judged afresh: what an earlier judge or MMR said of it is not known to hold here.
            found.append(replace(candidate, score=score, scores={name: score}, unscored=False, tier=""))
            scored += not mixed
            continue
        record = {"text": candidate} if isinstance(candidate, str) else candidate
        if not isinstance(record, Mapping):
            raise InputError(
                f"Candidate {number} is {type(candidate).__name__}; give a text or a dictionary."
            )
        hit, vectors = _hit(number, record, place)
        scored += "given" in hit.scores
        found.append(hit)
        if vectors is not None:
            given[hit.id] = vectors
    repeated = [name for name, count in Counter(hit.id for hit in found).items() if count > 1]
    if repeated:
        raise InputError(f"Two candidates have the id {repeated[0]!r}; give each its own, or none.")
    if scored not in (0, len(found)):
        raise InputError(f"{scored} of {len(found)} candidates have a score; give one to each, or to none.")
    if len({vectors.shape[1] for vectors in given.values()}) > 1 or len(given) not in (0, len(found)):
        raise InputError(
            f"{len(given)} of {len(found)} candidates have vectors, or not all of one dimension; give "
            "such to each, or to none."
        )
    # Equal scores stand as they were given.
    return Hits(sorted(found, key=lambda hit: -hit.score), query=query), given


def _hit(number: int, record: Mapping[str, Any], place: float) -> tuple[Hit, Vectors | None]:
    where = f"Candidate {number}"
    text, title = record.get("text"), record.get("title") or ""
    for name, value in (("text", text), ("title", title)):
        if not isinstance(value, str) or not is_utf8(value):
            raise InputError(f"{where} has no {name} that is a valid string; its {name} is {value!a}.")
    name = record.get("id", record.get("_id"))
    named = str(number) if name is None else str(name)
    document = named if record.get("document") is None else str(record["document"])
    score = record.get("score")
    scores = {"place": place}
    if score is not None:
        scores = {"given": _number(number, score)}
    vectors = None
    if record.get("vector") is not None:
        vector = record["vector"]
        if not hasattr(vector, "ndim"):
            try:
                vector = np.asarray(vector, dtype=np.float32)
            except (TypeError, ValueError) as error:
                raise InputError(f"The vector of candidate {number} is not an array of numbers.") from error
        vectors = check_vectors(f"candidate {number}", vector[None] if vector.ndim == 1 else vector, None)
    held = record.get("metadata")
    held = held if isinstance(held, Mapping) else {}
    hit = Hit(
        id=named,
        document=document,
        score=next(iter(scores.values())),
        scores=scores,
        title=title,
        text=str(text),
        start=0,
        end=len(str(text)),
        source="",
        metadata={**held, **{key: value for key, value in record.items() if key not in _KNOWN | _SEARCHED}},
    )
    return hit, vectors


def _number(number: int, score: Any) -> float:
    try:
        value = float("nan") if isinstance(score, bool) else float(score)
    except (TypeError, ValueError, OverflowError):
        value = float("nan")
    if not np.isfinite(value):
        raise InputError(f"Candidate {number} has the score {score!r}; give a finite number.")
    return value


@lru_cache(maxsize=2)
def _encoder(encoding: EncoderConfig) -> Encoder:
    """The model, loaded once a process."""
    return load_encoder(encoding)


def _exact(encoding: EncoderConfig) -> Reranker:
    model = _encoder(encoding)

    def query(text: str) -> QueryVectors:
        vectors = model.encode_queries([text])[0].vectors
        return QueryVectors(vectors, np.ones(len(vectors), dtype=np.float32))

    return LateReranker(EXACT, query, lambda texts: _encoded(model, [("", text) for text in texts]))


def _vectors(hits: Sequence[Hit], given: Mapping[str, Vectors], encoding: EncoderConfig) -> list[Vectors]:
    if given:
        return [given[hit.id] for hit in hits]
    return _encoded(_encoder(encoding), [(hit.title, hit.text) for hit in hits])


def _encoded(model: Encoder, texts: Sequence[tuple[str, str]]) -> list[Vectors]:
    """Token vectors of titles and texts; one longer than the model reads is split, so that none is cut."""
    splitter = Splitter(model.token_spans, model.text_budget(None), 0)
    inputs, owners = [], []
    for owner, (title, text) in enumerate(texts):
        for passage in splitter.split(Document(str(owner), text, title), UNKNOWN, Problems()):
            inputs.append(encoder_input(passage.prefix, passage.text))
            owners.append(owner)
    found: list[list[Vectors]] = [[np.empty((0, model.dim), dtype=np.float32)] for _ in texts]
    for owner, vectors in zip(owners, model.encode_texts(inputs), strict=True):
        found[owner].append(vectors)
    return [np.concatenate(blocks) for blocks in found]
