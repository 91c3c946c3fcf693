"""`ColRank`: one class in front of everything; it holds no algorithm."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Unpack, overload

import colrank_kernels
from numpy.typing import NDArray

from colrank import __version__
from colrank.builder import (
    Progress,
    Silent,
)
from colrank.cascade import wanted_hits
from colrank.compare import (
    Base,
    Budget,
    Centroids,
    Comparison,
    Variant,
    build_variant,
    cache_folder,
    compare_corpus,
    model_place,
)
from colrank.config import (
    EMBEDDED_MODEL,
    By,
    CascadeConfig,
    EncoderConfig,
    FieldNames,
    Kind,
    PassageConfig,
    QueryOptions,
    SearchConfig,
    StageOptions,
    StorageConfig,
    TokenWeights,
    check_choice,
    check_k,
    query_configs,
)
from colrank.encoder import Encoder, kept_dimensions, projection_option
from colrank.errors import IndexExists, InputError
from colrank.evaluate import Evaluation, evaluate
from colrank.explain import explain, highlight
from colrank.index import (
    IndexWriter,
    Knobs,
    Manifest,
    Snapshot,
    Verification,
    Where,
    drifted,
    is_index,
    open_snapshot,
    verify,
)
from colrank.index_cascade import IndexCascade
from colrank.lexical import FILES as WORD_FILES
from colrank.lexical import require_stemmer
from colrank.lost import Trace, trace
from colrank.native import native_is_there
from colrank.opened import QueryInput, located_model, model_location
from colrank.prefilter import plan
from colrank.rerankers import Reranker, load_reranker
from colrank.search import Query, Stage, scans, search
from colrank.tune import DRAWN_QUERIES, Tuning, drawn_texts, drawn_vectors, tune
from colrank.types import Explanation, Hit, Hits
from colrank.updates import Updates, exists_sentence


class ColRank(Updates):
    """An index to add to and search in.

    Make one with `ColRank.create`, open one with `ColRank.open`. Several may be open in one process;
    they share nothing. A ColRank object may be searched from several threads at once.

    Example:
        >>> index = ColRank.create("my.index")                              # doctest: +SKIP
        >>> index.add([{"id": "a", "text": "The guarantee lasts six months."}])  # doctest: +SKIP
        >>> index.search("how long is the guarantee", k=1)[0].document      # doctest: +SKIP
        'a'
    """

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        model: str | None = EMBEDDED_MODEL,
        device: str | None = None,
        dtype: str = "float32",
        projection: str = "auto",
        trust_remote_code: bool = False,
        passage_tokens: int | None = None,
        overlap: int = 0,
        token_weights: TokenWeights = "auto",
        bits: int | None = None,
        kind: Kind = "linear",
        pool: int = 1,
        seed: int = 0,
        centroids: int | None = None,
        hybrid: bool = False,
        overwrite: bool = False,
    ) -> ColRank:
        """Begin a new index. Nothing is written before the first documents are added.

        Args:
            path: folder of the index.
            model: "embedded", a folder, or a name on the hub; None for an index of given vectors only.
            device: cpu, cuda, cuda:1, mps; None takes the best there is.
            dtype: precision of the model: float32, float16 or bfloat16.
            projection: "auto" (the fixed one for the embedded model), "none", "fixed", or "truncate:DIM",
                which keeps the first DIM dimensions of what "auto" gives.
            trust_remote_code: let the checkpoint bring code of its own.
            passage_tokens: longest passage in the model's tokens, markers included; None: the model's own.
            overlap: tokens that a passage repeats of the one before it.
            token_weights: "auto", "none" or "idf".
            bits: 1, 2, 4 or 8 a dimension for residual codes, 16 or 32 for whole vectors; None keeps
                float16 below 50,000 tokens, and codes of 4 bits from there on.
            kind: of residual codes: "linear" (rotated, evenly spaced) or "quantile" (as in ColBERTv2).
            pool: about so many similar tokens of a passage become one vector; 1 keeps all.
            seed: of the sample, the rotation and k-means.
            centroids: their number; None lets it follow the tokens.
            hybrid: keep the words of passages too, for BM25 beside MaxSim.
            overwrite: replace an index that is there, once the new one is complete.

        Raises:
            IndexExists: there is an index and `overwrite` is False.
            InputError: an option has an impossible value.
            MissingExtra: `hybrid` is asked for and words cannot be stemmed.
        """
        folder = Path(path)
        if is_index(folder) and not overwrite:
            raise IndexExists(exists_sentence(folder))
        check_choice("token_weights", token_weights, ("auto", "none", "idf"))
        kept_dimensions(projection)
        PassageConfig(passage_tokens, overlap)
        storage = StorageConfig(bits, kind, pool, seed, centroids)
        if model is None and (passage_tokens or overlap or token_weights != "auto" or projection != "auto"):
            raise InputError(
                "An index of given vectors (model None) has no use for passage_tokens, overlap, "
                "token_weights or projection; leave them out."
            )
        settings = Manifest(
            generation=0,
            dim=0,
            passage_tokens=passage_tokens or 0,
            overlap=overlap,
            token_weights=token_weights,
            dtype=dtype,
            bits=storage.bits,
            kind=storage.kind,
            pool=storage.pool,
            seed=storage.seed,
            centroids=storage.centroids,
            hybrid=bool(hybrid),
        )
        if hybrid:
            require_stemmer()
        config = None
        if model is not None:
            config = EncoderConfig(model, device, dtype, projection, trust_remote_code)
        index = cls(folder, settings, config)
        index._overwrite = overwrite
        return index

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        model: str | None = None,
        device: str | None = None,
        dtype: str = "float32",
        trust_remote_code: bool = False,
        check_reads: bool = False,
    ) -> ColRank:
        """Open an index at its newest committed generation. The model is loaded by the first text query.

        Args:
            path: folder of the index.
            model: where the model is found now, when that is not where it was; it must be the same one.
            device, dtype, trust_remote_code: as in `create`.
            check_reads: compare the checksum of every file first, which reads all of the index once.

        Raises:
            IndexMissing, IndexFormat, IndexDamaged: as their names say.
        """
        folder = Path(path)
        snapshot = open_snapshot(folder, check_reads=check_reads)
        manifest = snapshot.manifest
        config = None
        if manifest.model is None and model is not None:
            raise InputError(f"{folder} was made from given vectors without a model; leave out {model!r}.")
        if manifest.model is not None:
            name = model or located_model(folder, manifest.model_location)
            projection = projection_option(manifest.model.projection)
            config = EncoderConfig(name, device, dtype, projection, trust_remote_code)
        index = cls(folder, manifest, config)
        index._snapshot = snapshot
        index._fresh = False
        return index

    @overload
    def search(  # type: ignore[overload-overlap]
        self,
        query: QueryInput,
        k: int = 10,
        *,
        by: By = "passage",
        highlight: bool = False,
        filter: str | None = None,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        path_prefix: str | None = None,
        ids: Collection[str] | None = None,
        **options: Unpack[QueryOptions],
    ) -> Hits: ...
    @overload
    def search(
        self,
        query: Sequence[str] | Sequence[NDArray[Any]],
        k: int = 10,
        *,
        by: By = "passage",
        highlight: bool = False,
        filter: str | None = None,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        path_prefix: str | None = None,
        ids: Collection[str] | None = None,
        **options: Unpack[QueryOptions],
    ) -> list[Hits]: ...
    def search(
        self,
        query: QueryInput | Sequence[str] | Sequence[NDArray[Any]],
        k: int = 10,
        *,
        by: By = "passage",
        highlight: bool = False,
        filter: str | None = None,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        path_prefix: str | None = None,
        ids: Collection[str] | None = None,
        **options: Unpack[QueryOptions],
    ) -> Hits | list[Hits]:
        """Find the k best passages (or documents) of a query.

        Args:
            query: text, or token vectors `[tokens, dim]`, or a list of either.
            k: most hits; as many come back as there are passages (documents) with tokens.
            by: what is counted: passages, or documents (the best passage stands for each).
            highlight: mark the words that matched best, for text queries.
            filter: a boolean SQL expression over metadata, `id`, `title`, `source` and `language`, such as
                "lang = 'es' and year >= 2020"; only documents for which it is true are searched, and k of
                them come back whenever there are as many.
            parameters: values for `?` (a list) or `$name` (a dictionary) in the filter.
            path_prefix: search only documents of this file or folder, by their source.
            ids: search only these documents.
            options: how hits are found (`colrank.config.SearchConfig` says what each means):
                `scan` "always" scores every passage, "never" those that the prefilter finds, "auto" does
                what is faster; `nprobe`, `shortlist`, `prune` are the prefilter's, by default what `tune`
                stored, else what suits k; `hybrid=True` fuses MaxSim with BM25 (`fusion`, `bm25_weight`,
                `branch`), `retrieve="bm25"` lets MaxSim rank what BM25 finds. And the stages after that,
                each off unless asked for: `rerank`, `judge`, `mmr` and what belongs to them
                (`colrank.config.CascadeConfig`).

        Returns:
            `Hits` for one query, a list of `Hits` for a list.

        Raises:
            InputError: k below 1, a filter that is none, an unknown id, an empty query, one of unknown
                tokens only, vectors of a wrong shape, an option with an impossible value, a stage that
                reads text asked of vectors.
            ModelMismatch: the query would be encoded otherwise than the passages.
            ModelError, MissingExtra: the reranker cannot be found, loaded or used.
            StageFailed: the reranker failed, or a query could not be judged, and `fail` was asked for.
        """
        k = check_k(k)
        config, second = query_configs(options)
        where = Where(filter, parameters, path_prefix, ids)
        snapshot = self.snapshot
        # An array or tensor of two dimensions is one query; of three, a list of them.
        single = isinstance(query, str) or getattr(query, "ndim", 3) < 3
        if not single and not isinstance(query, Iterable):
            raise InputError(
                f"The query is {type(query).__name__}; give text, an array, or a list of either."
            )
        inputs: list[Any] = [query] if single else list(query)
        if second.rerank is not None and not all(isinstance(value, str) for value in inputs):
            raise InputError("A reranker reads text, and a query was given as vectors; give its text.")
        stages: list[tuple[str, Stage]] = []
        if second.active:
            stages += self._cascade(second, snapshot).steps(k, by)
        begin = time.perf_counter()
        queries = self.prepare(inputs, snapshot)
        encoding = (time.perf_counter() - begin) / max(1, len(queries))
        if highlight and self._config is not None:
            encoder = self.encoder
            stages.append(("highlight", lambda q, hits: _highlight(snapshot, q, hits, encoder)))
        among, told = None, list[str]()
        if where != Where(parameters=parameters):
            among, told = snapshot.findable(where)
        found = search(
            snapshot, queries, k=wanted_hits(second, k), by=by, config=config, stages=stages, among=among
        )
        for hits in found:
            hits.timings = {"encode": encoding, **hits.timings}
            hits.warnings += told
        return found[0] if single else found

    def _cascade(self, config: CascadeConfig, snapshot: Snapshot) -> IndexCascade:
        return IndexCascade.load(
            snapshot,
            config,
            None if self._config is None else lambda: self.encoder,
            lambda text: self.prepare([text], snapshot)[0].vectors,
        )

    def explain(self, query: QueryInput, id: str | Hit) -> Explanation:
        """Say token by token why a hit, a passage, or the best passage of a document, matched.

        Raises:
            InputError: there is no such id, or it names both a document and a passage of another one.
        """
        snapshot = self.snapshot
        prepared = self.prepare([query], snapshot)[0]
        return explain(snapshot, prepared, id, self.encoder if self._config is not None else None)

    def trace(
        self,
        query: QueryInput,
        gold: str,
        k: int = 10,
        *,
        by: By = "passage",
        **options: Unpack[QueryOptions],
    ) -> Trace:
        """Say where a known right passage was lost on its way to the hits, or at which rank it is found.

        Args:
            query, k, by, options: as in `search`.
            gold: id of the passage, or of a document any of whose passages will do. One that the index does
                not hold is no error: that is where it was lost.

        Raises:
            InputError: as in `search`, or the id names both a document and a passage of another one.
        """
        k = check_k(k)
        config, second = query_configs(options)
        snapshot = self.snapshot
        if second.rerank is not None and not isinstance(query, str):
            raise InputError("A reranker reads text, and the query was given as vectors; give its text.")
        return trace(
            snapshot,
            self.prepare([query], snapshot)[0],
            gold,
            config=config,
            k=k,
            wanted=wanted_hits(second, k),
            by=by,
            steps=self._cascade(second, snapshot).steps(k, by) if second.active else [],
        )

    def evaluate(
        self,
        queries: Mapping[str, QueryInput] | str | Path,
        qrels: Mapping[str, Mapping[str, int]] | str | Path,
        *,
        depth: int = 100,
        stages: bool = False,
        vectors: Mapping[str, Any] | str | Path | None = None,
        baseline: Mapping[str, Sequence[tuple[str, float]]] | str | Path | None = None,
        k: int = 10,
        by: By = "passage",
        sweep: Sequence[int] = (),
        prices: str | Path | None = None,
        max_ms: float | None = None,
        progress: Progress | None = None,
        **options: Unpack[QueryOptions],
    ) -> Evaluation:
        """Search for every query with known answers, by document, and judge what is found.

        Args:
            queries: text or vectors by query id; or a file of .jsonl (`_id`, `text`), .tsv (id, query) or
                .npz (one array an id); or a folder that holds queries.jsonl.
            qrels: grade by query and document; or a file of TSV or in TREC's format; or a folder whose
                qrels/ holds test.tsv, or one .tsv file. A grade of at least 1 means relevant.
            depth: documents ranked for each query, at least 100.
            stages: also measure what each stage of the search loses; encodes the whole index again.
            vectors: for the stages, the array of each document that was added as vectors, by id, or an .npz
                file of them.
            baseline: ranked documents by query, or a TREC run file, to compare with.
            k, by, options: as in `search`; with any stage after the search, each one is judged too.
            sweep: numbers of candidates to rerank, to see where gain flattens.
            prices: TOML file of what rerankers ask for (`configs/prices.toml`).
            max_ms: milliseconds that a query may take in all, for the verdict.
            progress: told of the progress.

        Raises:
            InputError: a file is not what it should be, queries, judgements and index have nothing in
                common, or the stages lack vectors.
            MissingExtra: the extra `eval` is not installed.
        """
        snapshot = self.snapshot
        config, second = query_configs(options)
        return evaluate(
            snapshot,
            queries,
            qrels,
            prepare=lambda inputs: self.prepare(inputs, snapshot),
            encoder=None if self._config is None else lambda: self.encoder,
            config=config,
            depth=depth,
            stages=stages,
            vectors=vectors,
            baseline=baseline,
            second=self._cascade(second, snapshot) if second.active else None,
            k=k,
            by=by,
            sweep=sweep,
            prices=prices,
            max_ms=max_ms,
            progress=progress,
        )

    @classmethod
    def compare(
        cls,
        source: str | Path | Sequence[str | Path],
        queries: Mapping[str, QueryInput] | str | Path | None = None,
        qrels: Mapping[str, Mapping[str, int]] | str | Path | None = None,
        *,
        grid: str | Mapping[str, Any] | Sequence[Variant] = "fast",
        k: int = 10,
        sample: int | None = None,
        model: str | Sequence[str] = EMBEDDED_MODEL,
        device: str | None = None,
        dtype: str = "float32",
        trust_remote_code: bool = False,
        passage_tokens: int | None = None,
        overlap: int = 0,
        token_weights: TokenWeights = "auto",
        fields: FieldNames | None = None,
        seed: int = 0,
        max_bytes_per_passage: float | None = None,
        max_loss: float | None = None,
        max_ms: float | None = None,
        baselines: bool = True,
        cache: str | Path | None = None,
        apply: str | Path | None = None,
        overwrite: bool = False,
        progress: Progress | None = None,
        **stages: Unpack[StageOptions],
    ) -> Comparison:
        """Compare what storage costs with what it gives, on a corpus of one's own.

        The corpus is encoded once a model and kept in the cache; every variant is built from these vectors,
        searched with the same queries, and timed in turns with the others. Stopped, it goes on where it
        stood.

        Of several models each has its own variants, and agreement is with its own float32 exact. Losses of
        all are against one row: the float32 exact of the best model by mean nDCG@10. This needs a corpus and
        judged queries.

        Args:
            source: folders and files, or an index, whose passages are encoded again unless it keeps them
                whole.
            queries, qrels: as in `evaluate`; without them sentences drawn from the passages ask, each taken
                out of its passage, and agreement with float32 exact is measured, not relevance.
            grid: "fast" (12 variants), "full", lists of values by axis (`colrank.compare.variants.AXES`), or
                variants.
            k: hits of the timed searches.
            sample: most queries; None is all judged ones, or 200 drawn ones.
            model: as in `create`, or several models to compare with each other; of an index its own counts.
            device, dtype, trust_remote_code, passage_tokens, overlap, token_weights, fields: as in `create`
                and `add_files`, the same for every model.
            seed: of drawn queries and of codecs.
            max_bytes_per_passage, max_loss, max_ms: what the recommended variant keeps within; loss is judged
                by the upper end of its interval, and is at most .01 where nothing is said.
            baselines: with judged texts also measure one vector a passage and BM25.
            cache: where encoded corpora are kept; None is COLRANK_CACHE or the user's cache.
            apply: folder of an index to build with the recommended variant, from the same vectors;
                `overwrite` replaces one that is there.
            progress: told of the progress.
            stages: `rerank` and its options put a cross-encoder on top of each baseline and of the
                recommended variant.

        Raises:
            InputError: an impossible grid or budget, a budget that no variant meets, qrels without queries or
                the other way round, too few queries for an interval, a model named twice, several models
                without judged queries or with an index, or nothing can be written to `apply`.
            IndexExists: `apply` is an index, and it is not to be replaced.
            MissingExtra: FAISS, or the extra `eval`, is not installed.
        """
        names = fields or FieldNames()

        def encode(name: str, folder: Path, paths: Sequence[Path]) -> ColRank:
            made = cls.create(
                folder,
                model=name,
                device=device,
                dtype=dtype,
                trust_remote_code=trust_remote_code,
                passage_tokens=passage_tokens,
                overlap=overlap,
                token_weights=token_weights,
                bits=32,
                seed=seed,
            )
            made._prefilter = False  # every variant trains its own
            made.add_files(paths, fields=names, progress=progress)
            return made

        def settings(name: str) -> dict[str, Any]:
            return {
                **asdict(EncoderConfig(model_place(name), None, dtype, "auto", trust_remote_code)),
                **asdict(names),
                "passage_tokens": passage_tokens,
                "overlap": overlap,
                "token_weights": token_weights,
                "seed": seed,
                "version": __version__,
            }

        target = None if apply is None else Path(apply)
        if target is not None:
            if is_index(target) and not overwrite:
                raise IndexExists(exists_sentence(target))
            with IndexWriter(target):
                pass  # what would keep it from being written is said before anything is encoded

        def build(base: Base, variant: Variant, centroids: Centroids) -> None:
            assert target is not None
            manifest = base.snapshot.manifest
            place = located_model(base.index.path, manifest.model_location)
            build_variant(
                target,
                base.snapshot,
                variant,
                encoder=base.encoder,
                centroids=centroids,
                left_out={},
                progress=progress or Silent(),
                location=model_location(target, place) if manifest.model else "",
            )

        second = CascadeConfig(**stages)
        if second.judge is not None or second.mmr is not None or second.dedupe:
            raise InputError("A comparison takes a reranker only; leave judge, mmr and dedupe out.")
        if second.rerank == "exact":
            raise InputError("exact is what every row is compared with; name a cross-encoder.")
        return compare_corpus(
            source,
            queries,
            qrels,
            model=model,
            encode=encode,
            open_index=lambda path: cls.open(
                path, device=device, dtype=dtype, trust_remote_code=trust_remote_code
            ),
            settings=settings,
            grid=grid,
            k=check_k(k),
            sample=None if sample is None else check_k(sample),
            seed=seed,
            budget=Budget(max_bytes_per_passage, max_loss, max_ms),
            baselines=baselines,
            reranker=load_reranker(second, exact=_never),
            cache=cache_folder(cache),
            apply=None if target is None else build,
            progress=progress or Silent(),
        )

    def tune(
        self,
        recall: float = 0.99,
        k: int = 10,
        *,
        queries: Sequence[QueryInput] | None = None,
        drawn: int = DRAWN_QUERIES,
        store: bool = False,
    ) -> Tuning:
        """Find the fastest prefilter settings whose recall@k against the full scan is at least `recall`.

        Args:
            recall: the wanted share of the full scan's k best passages.
            k: hits a query.
            queries: texts or arrays; None draws some from the index's passages, which are easier.
            drawn: how many are drawn.
            store: keep the settings in the index (a new generation), so that searches use them.

        Raises:
            InputError: an impossible recall or k, no query, an index without a prefilter, or nothing to
                store because no setting reached the recall.
        """
        snapshot = self.snapshot
        inputs: Sequence[QueryInput]
        if queries is not None:
            inputs = list(queries)
        elif drawn < 1:
            raise InputError(f"drawn is {drawn!r}; draw at least 1 query.")
        else:
            texts = drawn_texts(snapshot, drawn, lambda: self.encoder) if self._config else []
            inputs = texts or drawn_vectors(snapshot, drawn)
        found = tune(snapshot, self.prepare(inputs, snapshot), k=k, recall=recall, drawn=queries is None)
        if store:
            if found.best is None:
                raise InputError(
                    f"No settings reached a recall of {recall:g}, so none are stored; ask for less, or "
                    "search with scan 'always'."
                )
            self._store_knobs(Knobs(found.best.nprobe, found.best.shortlist, found.best.prune, found.k))
        return found

    def _store_knobs(self, knobs: Knobs) -> None:
        with IndexWriter(self.path) as writer:
            manifest = open_snapshot(self.path).manifest
            if manifest.segments != self.snapshot.manifest.segments:
                raise InputError(f"{self.path} was changed since it was opened; open it and tune it again.")
            writer.commit(replace(manifest, generation=manifest.generation + 1, knobs=knobs))
        self._snapshot = open_snapshot(self.path)
        self._settings = self._snapshot.manifest

    def verify(self) -> Verification:
        """Read every file of the newest generation and say what is broken, and where."""
        return verify(self.path)

    def stats(self) -> dict[str, Any]:
        """Counts, bytes by part, model, token weights and kernels of this snapshot, as plain values."""
        snapshot = self.snapshot
        counts, manifest = snapshot.contents.counts, snapshot.manifest
        codec = manifest.codec
        parts = ("vectors", "centroids", "postings", "words", "text", "deletions", "other")
        sizes = dict.fromkeys(parts, 0)
        for entry in manifest.segments:
            for name, (size, _) in entry.files.items():
                part = "postings" if name.startswith("posting") else "other"
                part = "vectors" if name in entry.shards else "text" if name == "passages.arrow" else part
                part = "words" if name in WORD_FILES else part
                sizes[part] += size
            if entry.deletions:
                sizes["deletions"] += sum(size for size, _ in entry.deletions.files.values())
        sizes["centroids"] = sum(size for size, _ in codec.files.values()) if codec else 0
        sizes["other"] += len(manifest.to_json().encode())
        total = sum(sizes.values())
        return {
            "path": str(self.path),
            "generation": manifest.generation,
            "documents": counts.documents,
            "passages": counts.passages,
            "tokens": counts.tokens,
            "unpooled_tokens": counts.unpooled_tokens,
            "segments": [
                {
                    "name": entry.name,
                    "documents": entry.live_documents,
                    "deleted": entry.documents - entry.live_documents,
                    "passages": entry.live_passages,
                    "tokens": entry.live_tokens,
                    "squared_error": entry.squared_error,
                    "drifted": drifted(manifest, entry),
                }
                for entry in manifest.segments
            ],
            "dim": manifest.dim,
            "bits": manifest.stored_bits,
            "pool": manifest.pool,
            "hybrid": manifest.hybrid,
            "codec": None
            if codec is None
            else {
                "kind": codec.kind,
                "centroids": codec.centroids,
                **asdict(codec.training),
            },
            "search": {
                "scan": scans(snapshot, SearchConfig()),
                **asdict(plan(snapshot, SearchConfig(), manifest.knobs.k or 10)),
                "stored": {name: v for name, v in asdict(manifest.knobs).items() if v is not None},
            },
            "model_dtype": manifest.dtype,
            "bytes": {**sizes, "total": total},
            "bytes_per_token": round(total / max(1, counts.tokens), 2),
            "vector_bytes_per_token": round(sizes["vectors"] / max(1, counts.tokens), 2),
            "model": manifest.model.name if manifest.model else None,
            "passage_tokens": manifest.passage_tokens,
            "overlap": manifest.overlap,
            "token_weights": manifest.token_weights,
            "weighted": snapshot.weighted,
            "language_tokens": dict(counts.language_tokens),
            "kernels": _kernels(),
        }


def _never() -> Reranker:
    raise AssertionError("exact was refused before")


def _highlight(snapshot: Snapshot, query: Query, hits: Hits, encoder: Encoder) -> Hits:
    return highlight(snapshot, query, hits, encoder) if query.encoded else hits


def _kernels() -> list[str]:
    """What scores on this machine."""
    if not native_is_there():
        return ["none (torch)"]
    threads = colrank_kernels.threads()
    return [f"cpu: {colrank_kernels.variant()}, {threads} thread{'s' * (threads > 1)}"]
