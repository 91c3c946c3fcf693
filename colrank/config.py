"""Every option of colrank: one name, one default, the same in Python, on the command line and in TOML."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, Literal, SupportsIndex, TypedDict

from colrank.errors import InputError

EMBEDDED_MODEL = "embedded"
"""Name of the default encoder, whose weights come from a package (extra `embedded`)."""

INDEX_LOCK = "colrank.lock"
"""The writer's lock inside an index; a folder that holds it is an index and never part of a corpus."""

SMALL_TOKENS = 50_000
"""Below so many tokens an index keeps whole vectors unless `bits` was asked for."""

RETRAIN_GROWTH = 4
"""A codec is trained again when the index has so many times the tokens that it was trained on."""

DEFAULT_BITS = 4
"""Bits a dimension of a coded index: the fewest that lost no nDCG@10 that a paired bootstrap shows, on any
collection (`bench/codec.py`)."""

BITS = (1, 2, 4, 8, 16, 32)

Kind = Literal["linear", "quantile"]
Scan = Literal["auto", "always", "never"]
Retrieve = Literal["maxsim", "hybrid", "bm25"]
Fusion = Literal["rrf", "score"]
TokenWeights = Literal["auto", "none", "idf"]
By = Literal["passage", "document"]


@dataclass(frozen=True, slots=True)
class FieldNames:
    """Which fields of a record hold what; several names mean the first that is there."""

    id_field: tuple[str, ...] = ("_id", "id")
    title_field: tuple[str, ...] = ("title",)
    text_field: tuple[str, ...] = ("text",)


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """How text becomes vectors. All but `device` and `dtype` are part of the model's fingerprint.

    `projection` is "auto" (the fixed one for the embedded model, none for others), "none", "fixed", or
    "truncate:DIM", which keeps the first DIM dimensions of what "auto" gives.
    """

    model: str = EMBEDDED_MODEL
    device: str | None = None
    dtype: str = "float32"
    projection: str = "auto"
    trust_remote_code: bool = False


@dataclass(frozen=True, slots=True)
class PassageConfig:
    """How documents are split. `passage_tokens` None means the model's own document length."""

    passage_tokens: int | None = None
    overlap: int = 0

    def __post_init__(self) -> None:
        if self.passage_tokens is not None and self.passage_tokens < 8:
            raise InputError(f"passage_tokens is {self.passage_tokens}; it must be at least 8.")
        if self.overlap < 0:
            raise InputError(f"overlap is {self.overlap}; it counts tokens and must be at least 0.")
        if self.passage_tokens is not None and self.overlap * 2 > self.passage_tokens:
            raise InputError(
                f"overlap ({self.overlap}) must be at most half of passage_tokens ({self.passage_tokens})."
            )


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """How token vectors are stored. `bits` None: whole while the index is small, then `DEFAULT_BITS`.
    `centroids` None: their number follows that of the tokens.

    NumPy's whole numbers are taken and held as int.
    """

    bits: int | None = None
    kind: str = "linear"
    pool: int = 1
    seed: int = 0
    centroids: int | None = None

    def __post_init__(self) -> None:
        centroids = _integer(self.centroids)
        if self.centroids is not None and (centroids is None or not 1 <= centroids <= 2**24):
            raise InputError(
                f"centroids is {self.centroids!r}; give a whole number from 1 to {2**24}, or leave it out."
            )
        bits, pool, seed = _integer(self.bits), _integer(self.pool), _integer(self.seed)
        if self.bits is not None and bits not in BITS:
            raise InputError(f"bits is {self.bits!r}; choose one of {', '.join(map(str, BITS))}.")
        check_choice("kind", self.kind, ("linear", "quantile"))
        if pool is None or not 1 <= pool <= 16:
            raise InputError(f"pool is {self.pool!r}; it is how many tokens become one, from 1 to 16.")
        if seed is None or not 0 <= seed < 2**31:
            raise InputError(f"seed is {self.seed!r}; give a whole number from 0 to 2147483647.")
        for name, number in (("bits", bits), ("pool", pool), ("seed", seed), ("centroids", centroids)):
            _set(self, name, number)


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How candidates are found. What is None follows from the index, its size and k.

    NumPy's numbers are taken and held as int and float.

    Attributes:
        scan: `always` scores every passage, `never` goes through the prefilter, `auto` does what is faster.
        nprobe: centroids that are looked up for each query token.
        shortlist: passages that are scored from their codes.
        prune: centroids less similar than this to every query token are left out of the centroid scores.
        hybrid: another word for retrieve "hybrid".
        retrieve: `maxsim`; `hybrid`, which fuses it with BM25; `bm25`, whose finds MaxSim ranks.
        fusion: of the hybrid: `rrf`, by reciprocal rank, or `score`, by scores moved to [0, 1].
        bm25_weight: of BM25 in the fusion, where MaxSim has 1.
        branch: hits that each of the two brings to the fusion, at least k.
    """

    scan: str = "auto"
    nprobe: int | None = None
    shortlist: int | None = None
    prune: float | None = None
    hybrid: bool = False
    retrieve: str = "maxsim"
    fusion: str = "rrf"
    bm25_weight: float = 1.0
    branch: int = 50

    def __post_init__(self) -> None:
        check_choice("scan", self.scan, ("auto", "always", "never"))
        check_choice("retrieve", self.retrieve, ("maxsim", "hybrid", "bm25"))
        check_choice("fusion", self.fusion, ("rrf", "score"))
        if self.hybrid and self.retrieve == "bm25":
            raise InputError("retrieve is bm25 and hybrid was asked for too; leave one of them out.")
        if self.hybrid:
            _set(self, "retrieve", "hybrid")
        weight = _number(self.bm25_weight)
        if weight is None or not 0 <= weight < math.inf:
            raise InputError(f"bm25_weight is {self.bm25_weight!r}; give a number of at least 0.")
        _set(self, "bm25_weight", weight)
        _set(self, "branch", _whole("branch", self.branch, 1))
        for name, value in (("nprobe", self.nprobe), ("shortlist", self.shortlist)):
            if value is not None:
                _set(self, name, _whole(name, value, 1))
        if self.prune is not None:
            prune = _number(self.prune)
            if prune is None or not -1 <= prune <= 1:
                raise InputError(
                    f"prune is {self.prune!r}; it is a similarity, from -1 (prunes nothing) to 1."
                )
            _set(self, "prune", prune)


RERANKER_OPTIONS = (
    "rerank_url",
    "rerank_max_length",
    "rerank_windows",
    "rerank_instruction",
    "rerank_device",
)
"""Options of a reranker that mean nothing without one."""


class StageOptions(TypedDict, total=False):
    """Keywords of the stages after the search; see `CascadeConfig` for what each means."""

    rerank: Any
    blend: float
    rerank_url: str | None
    rerank_max_length: int | None
    rerank_windows: bool
    rerank_instruction: str | None
    rerank_device: str | None
    rerank_dtype: str
    rerank_backend: str
    rerank_timeout: float
    rerank_retries: int
    on_rerank_error: str
    judge: float | None
    on_judge_error: str
    fallback: str | None
    mmr: float | None
    mmr_exact: bool
    max_per_document: int | None
    dedupe: bool


class CascadeOptions(StageOptions, total=False):
    """The same, and how many hits of the search these stages look at."""

    candidates: int


class QueryOptions(CascadeOptions, total=False):
    """The same, and how the hits are found: see `SearchConfig`."""

    scan: Scan
    nprobe: int | None
    shortlist: int | None
    prune: float | None
    hybrid: bool
    retrieve: Retrieve
    fusion: Fusion
    bm25_weight: float
    branch: int


@dataclass(frozen=True, slots=True)
class CascadeConfig:
    """The stages after the search: reranker, judge, MMR. Each is off unless asked for.

    Attributes:
        rerank: name of a reranker, `family:rest` (`colrank.rerankers`), or an object with its methods.
        candidates: hits that the stages look at; at least k.
        blend: share of the earlier score, scaled to [0, 1] within the query, in the order after reranking.
        rerank_url: where the service is, when not at its usual place.
        rerank_max_length: longest pair in the model's tokens; None is the model's own limit.
        rerank_windows: score overlapping windows of a text that is too long, and take the best.
        rerank_instruction: an instruction in words, for a language model.
        rerank_device, rerank_dtype, rerank_backend: how a reranker on this machine runs: as in `device`
            and `dtype` of the encoder; torch, onnx or openvino.
        rerank_timeout: seconds that a request to a service may take.
        rerank_retries: how often a request is sent again.
        on_rerank_error: `fall-back` keeps the earlier order and warns, `fail` raises.
        judge: least score that passes; None judges nothing.
        on_judge_error: `return-unjudged` returns the hits with a verdict that says so, `fail` raises.
        fallback: the sentence for a refused query; None is colrank's own, in the language of the index.
        mmr: lambda of maximal marginal relevance: 1 is relevance alone, 0 difference alone.
        mmr_exact: compare all vectors of two passages, not a reduction of them.
        max_per_document: most passages of one document; None is 2 under `mmr`, and no limit otherwise.
        dedupe: leave out a hit whose text repeats that of a better one.
    """

    rerank: Any = None
    candidates: int = 50
    blend: float = 0.0
    rerank_url: str | None = None
    rerank_max_length: int | None = None
    rerank_windows: bool = False
    rerank_instruction: str | None = None
    rerank_device: str | None = None
    rerank_dtype: str = "float32"
    rerank_backend: str = "torch"
    rerank_timeout: float = 30.0
    rerank_retries: int = 3
    on_rerank_error: str = "fall-back"
    judge: float | None = None
    on_judge_error: str = "return-unjudged"
    fallback: str | None = None
    mmr: float | None = None
    mmr_exact: bool = False
    max_per_document: int | None = None
    dedupe: bool = False

    def __post_init__(self) -> None:
        for name in ("candidates", "rerank_max_length", "max_per_document"):
            value = getattr(self, name)
            if value is not None:
                _set(self, name, _whole(name, value, 1))
        _set(self, "rerank_retries", _whole("rerank_retries", self.rerank_retries, 0))
        for name in ("blend", "judge", "mmr"):
            value = getattr(self, name)
            if value is not None:
                _set(self, name, _share(name, value))
        timeout = _number(self.rerank_timeout)
        if timeout is None or not 0 < timeout < math.inf:
            raise InputError(f"rerank_timeout is {self.rerank_timeout!r}; it is a number of seconds above 0.")
        _set(self, "rerank_timeout", timeout)
        check_choice("on_rerank_error", self.on_rerank_error, ("fall-back", "fail"))
        check_choice("on_judge_error", self.on_judge_error, ("return-unjudged", "fail"))
        check_choice("rerank_backend", self.rerank_backend, ("torch", "onnx", "openvino"))
        check_choice("rerank_dtype", self.rerank_dtype, ("float32", "float16", "bfloat16"))
        if self.rerank is None:
            for option in self.set_among(RERANKER_OPTIONS):
                raise InputError(f"{option} is about a reranker; name one with rerank, or leave it out.")
        if self.rerank is None and self.judge is not None:
            raise InputError("judge needs a reranker's score; name one with rerank, or leave judge out.")
        if self.rerank is None and self.blend:
            raise InputError("blend mixes a reranker's score with the earlier one; name one with rerank.")
        if self.mmr is None and self.mmr_exact:
            raise InputError("mmr_exact says how mmr compares passages; give mmr a value from 0 to 1 too.")

    def set_among(self, options: Iterable[str]) -> list[str]:
        """Those of some options that are not at their defaults."""
        usual = type(self).__dataclass_fields__
        return [option for option in options if getattr(self, option) != usual[option].default]

    @property
    def active(self) -> bool:
        """Whether any stage is asked for."""
        asked = (self.rerank, self.mmr, self.max_per_document)
        return self.dedupe or any(option is not None for option in asked)


def query_configs(options: Mapping[str, Any]) -> tuple[SearchConfig, CascadeConfig]:
    """How hits are found, and the stages after that.

    Raises:
        InputError: an option has an impossible value.
        TypeError: there is no such option.
    """
    search = {name: value for name, value in options.items() if name in SearchConfig.__dataclass_fields__}
    rest = {name: value for name, value in options.items() if name not in search}
    return SearchConfig(**search), CascadeConfig(**rest)


def _set(config: object, name: str, value: Any) -> None:
    object.__setattr__(config, name, value)


def _integer(value: Any) -> int | None:
    """The int that a value is, also one of NumPy's; None for floats, strings, bools and all else."""
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


def _whole(name: str, value: Any, least: int) -> int:
    number = _integer(value)
    if number is None or number < least:
        raise InputError(f"{name} is {value!r}; give a whole number of at least {least}.")
    return number


def _number(value: Any) -> float | None:
    if isinstance(value, bool | str | bytes):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _share(name: str, value: Any) -> float:
    number = _number(value)
    if number is None or not 0 <= number <= 1:
        raise InputError(f"{name} is {value!r}; give a number from 0 to 1.")
    return number


def check_k(k: SupportsIndex) -> int:
    """Return `k` as an int, or raise InputError when it is no whole number or below 1."""
    number = _integer(k)
    if number is None or number < 1:
        raise InputError(f"k is {k!r}; ask for at least 1 hit.")
    return number


def check_recall(recall: Any) -> float:
    """Return `recall` as a float, or raise InputError when it is no number, or not above 0 and at most 1."""
    number = _number(recall)
    if number is None or not 0 < number <= 1:
        raise InputError(f"recall is {recall!r}; ask for a share above 0 and at most 1, such as 0.99.")
    return number


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """Return `value`, or raise InputError when it is none of the choices."""
    if value not in choices:
        raise InputError(f"{name} is {value!r}; choose one of {', '.join(choices)}.")
    return value


def load_toml(path: Path) -> dict[str, dict[str, Any]]:
    """Read a preset: a table for each command (`[index]`, `[search]`) of option names and values.

    Raises:
        InputError: the file is not there, is not TOML, or has something outside a table.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read the configuration {path}: {error.strerror or error}.") from error
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(f"The configuration {path} is not valid TOML: {error}.") from error
    for name, table in content.items():
        if not isinstance(table, Mapping):
            raise InputError(f"{path}: put the option {name!r} under a command, such as [index] or [search].")
    return content
