"""What changes an index: add, sync, delete, compact, each one generation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import xxhash

from colrank.builder import (
    Built,
    Compaction,
    GivenDocuments,
    Progress,
    build_from_documents,
    build_from_vectors,
    compact,
    delete_documents,
    due,
    whole,
)
from colrank.config import FieldNames, PassageConfig
from colrank.corpus import document_from_record, plain_metadata
from colrank.errors import IndexExists, InputError
from colrank.index import IndexWriter, Manifest, Snapshot, Where, is_index, open_snapshot
from colrank.lexical import require_stemmer
from colrank.opened import Opened, model_location
from colrank.rerankers.languages import language_warning
from colrank.sync import CorpusReading
from colrank.transfer import Exported, export_index
from colrank.types import BuildReport, Document, Problems


class Updates(Opened):
    """The methods of `colrank.api.ColRank` that change an index."""

    def add(
        self,
        documents: Iterable[Mapping[str, Any] | Document],
        *,
        strict: bool = False,
        progress: Progress | None = None,
    ) -> BuildReport:
        """Add documents given as dictionaries (`id`, `text`, `title`, the rest metadata) or `Document`s.

        The same id replaces the older document; one that comes again as it was is left as it is. All or
        nothing: when this raises, the index is as before.
        """
        problems = Problems()
        return self._add(_documents(documents, problems, strict), problems, strict, progress)

    def add_files(
        self,
        paths: str | Path | Sequence[str | Path],
        *,
        fields: FieldNames | None = None,
        strict: bool = False,
        progress: Progress | None = None,
    ) -> BuildReport:
        """Add every document of folders and files; what cannot be read is counted in the report.

        Raises:
            InputError: there is no such path, or nothing readable.
        """
        return self._add_files(paths, fields, strict, progress, delete=False)

    def sync(
        self,
        paths: str | Path | Sequence[str | Path],
        *,
        fields: FieldNames | None = None,
        strict: bool = False,
        keep_missing: bool = False,
        progress: Progress | None = None,
    ) -> BuildReport:
        """Read folders and files again: add what is new, replace what changed, delete what is gone.

        Only documents that came from these paths can be gone, and none of a file that could not be read.

        Args:
            keep_missing: delete nothing.

        Raises:
            InputError: there is no such path, or nothing readable.
        """
        return self._add_files(paths, fields, strict, progress, delete=not keep_missing)

    def _add_files(
        self,
        paths: str | Path | Sequence[str | Path],
        fields: FieldNames | None,
        strict: bool,
        progress: Progress | None,
        *,
        delete: bool,
    ) -> BuildReport:
        given = [paths] if isinstance(paths, str | Path) else list(paths)
        problems = Problems()
        reading = CorpusReading(
            [Path(path) for path in given],
            fields or FieldNames(),
            problems,
            strict=strict,
            on_bytes=progress.advance if progress else None,
        )

        def stream() -> Iterable[Document]:
            if progress:
                progress.start("reading", reading.bytes, "bytes")
            yield from reading.documents()

        return self._add(stream(), problems, strict, progress, reading if delete else None)

    def add_embeddings(
        self,
        ids: Sequence[str],
        arrays: Iterable[Any],
        *,
        texts: Sequence[str] | None = None,
        titles: Sequence[str] | None = None,
        metadata: Sequence[Mapping[str, Any]] | None = None,
        progress: Progress | None = None,
    ) -> BuildReport:
        """Add documents by token vectors of the caller's own, one array `[tokens, dim]` each.

        Vectors are scaled to unit length. In an index with a model, they must come from that model.

        Args:
            ids: of the documents.
            arrays: as many, read once: a generator keeps memory small.
            texts, titles, metadata: of each document.

        Raises:
            InputError: lists of different lengths, a wrong dim, NaN or Inf (naming the document).
        """
        ids = list(ids)
        given = GivenDocuments(ids, arrays, texts, titles, metadata)
        first = given.first(self._settings.dim or (self.encoder.dim if self._config else None))
        problems = given.problems

        def build(writer: IndexWriter, settings: Manifest, base: Snapshot | None) -> Built:
            dim = int(first.shape[1])
            if settings.dim not in (0, dim):
                raise InputError(
                    f"The vectors have {dim} dimensions and the index has {settings.dim}; add vectors "
                    "of the index's own model."
                )
            return build_from_vectors(
                writer,
                given.stream(),
                given.last,
                replace(settings, dim=dim),
                base=base,
                encoder=lambda: self.encoder,
                progress=progress,
            )

        return self._write(build, problems)

    def export(self, path: str | Path, *, vectors: bool = False) -> int:
        """Write documents, passages and metadata to a Parquet file (`colrank.transfer`).

        Args:
            vectors: write the decoded token vectors too.

        Returns:
            The number of passages.
        """
        return export_index(self.snapshot, Path(path), vectors=vectors)

    def add_exported(
        self, path: str | Path, *, vectors: bool = False, progress: Progress | None = None
    ) -> BuildReport:
        """Add what `export` wrote; texts are encoded again, unless `vectors` says to take those of the file.

        Raises:
            InputError: the file is no export, or vectors were asked for and it has none.
        """
        exported = Exported(Path(path))
        if not vectors:
            return self._add(exported.documents(), Problems(), False, progress)
        if not exported.has_vectors:
            raise InputError(f"{path} holds no vectors; export with --vectors, or import with a model.")
        held = list(exported.documents())
        return self.add_embeddings(
            [document.id for document in held],
            exported.vectors(),
            texts=[document.text for document in held],
            titles=[document.title for document in held],
            metadata=[document.metadata for document in held],
            progress=progress,
        )

    def _add(
        self,
        documents: Iterable[Document],
        problems: Problems,
        strict: bool,
        progress: Progress | None,
        reading: CorpusReading | None = None,
    ) -> BuildReport:
        encoder = self.encoder

        def build(writer: IndexWriter, settings: Manifest, base: Snapshot | None) -> Built:
            vanished = None if reading is None or base is None else partial(reading.vanished, base.contents)
            return build_from_documents(
                writer,
                documents,
                encoder,
                settings,
                base=base,
                vanished=vanished,
                problems=problems,
                strict=strict,
                prefilter=self._prefilter,
                progress=progress,
            )

        return self._write(build, problems, progress)

    def delete(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        where: str | None = None,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        path_prefix: str | None = None,
        dry_run: bool = False,
    ) -> list[str]:
        """Delete documents by id, or those that a filter or a path names, and give their ids.

        Their segments stay as they are, so that the work follows what is deleted; `compact` drops them for
        good.

        Args:
            ids: of documents.
            where, parameters: as `filter` and `parameters` of `search`.
            path_prefix: documents of this file or folder, by their source.
            dry_run: delete nothing.

        Raises:
            InputError: nothing was named, or an id is not in the index.
        """
        names = [ids] if isinstance(ids, str) else None if ids is None else list(ids)
        wanted = Where(where, parameters, path_prefix, names)
        if wanted == Where(parameters=parameters):
            raise InputError("Nothing to delete was named; give ids, a filter or a path.")
        self._require_written()
        deleted: list[str] = []

        def chosen(base: Snapshot) -> list[int]:
            rows: list[int] = base.matching(wanted).tolist()
            deleted.extend(document.id for document in base.contents.documents(rows))
            return rows

        def build(writer: IndexWriter, _: Manifest, base: Snapshot | None) -> Built:
            assert base is not None
            rows = chosen(base)
            if not rows:
                return Built(base.manifest)
            encoder = (lambda: self.encoder) if self._config else None
            return Built(delete_documents(writer, base, rows, encoder), deleted=len(rows))

        if dry_run:
            chosen(open_snapshot(self.path))
        else:
            self._write(build, Problems())
        return deleted

    def compact(
        self,
        *,
        retrain: bool = False,
        hybrid: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Compaction | None:
        """Write all segments again as one, without what was deleted.

        Args:
            retrain: train a new codec, from what the present one decodes to.
            hybrid: keep the words of passages from now on, for BM25.
            dry_run: only say what would be done.

        Returns:
            What was done, or would be; None where there is nothing to do.
        """
        self._require_written()
        if hybrid:
            require_stemmer()
        if dry_run:
            return whole(open_snapshot(self.path).manifest, retrain=retrain, hybrid=hybrid)
        done: list[Compaction | None] = []

        def build(writer: IndexWriter, _: Manifest, base: Snapshot | None) -> Built:
            assert base is not None
            plan = whole(base.manifest, retrain=retrain, hybrid=hybrid)
            done.append(plan)
            return Built(base.manifest if plan is None else compact(writer, base, plan, progress))

        self._write(build, Problems(), progress)
        return done[0]

    def _require_written(self) -> None:
        """Raise InputError where nothing was indexed yet."""
        _ = self.snapshot

    def _write(
        self,
        build: Callable[[IndexWriter, Manifest, Snapshot | None], Built],
        problems: Problems,
        progress: Progress | None = None,
    ) -> BuildReport:
        """Build the next generation under the writer's lock, compact it where that is due, move on to it."""
        begin = time.perf_counter()
        with IndexWriter(self.path) as writer:
            settings, base = self._settings, None
            if self._fresh:
                settings = self._fresh_settings(writer)
            else:
                base = open_snapshot(self.path)
                settings = base.manifest
                self._check_same(settings)
                if self._config is not None:
                    # Where the model was found now is where the next reader will find it.
                    settings = replace(settings, model_location=model_location(self.path, self._config.model))
            built = build(writer, settings, base)
            if built.manifest != (base.manifest if base else None):
                manifest = built.manifest
                while (plan := due(manifest)) is not None:
                    manifest = compact(writer, open_snapshot(self.path), plan, progress)
            self._snapshot = open_snapshot(self.path)
            self._settings = self._snapshot.manifest
            self._fresh = False
        counts, manifest = self._snapshot.contents.counts, self._settings
        notes = []
        if manifest.model is not None:
            notes = [language_warning(manifest.model.name, counts.language_tokens, "encoder")]
        return BuildReport(
            documents=counts.documents,
            passages=counts.passages,
            tokens=counts.tokens,
            bytes=manifest.bytes,
            seconds=time.perf_counter() - begin,
            problems=problems,
            added=built.added,
            replaced=built.replaced,
            unchanged=built.unchanged,
            deleted=built.deleted,
            resumed=built.resumed,
            notes=tuple(note for note in notes if note),
        )

    def _fresh_settings(self, writer: IndexWriter) -> Manifest:
        """Settings of an index that is written for the first time."""
        settings = self._settings
        if is_index(self.path):
            if not self._overwrite:  # somebody made one since `create` looked
                raise IndexExists(exists_sentence(self.path))
            # Generations go on counting, so that no reader mistakes the new for the old.
            settings = replace(settings, generation=writer.newest_generation())
        if self._config is None:
            return settings
        encoder = self.encoder
        settings = replace(
            settings,
            dim=encoder.dim,
            model=encoder.fingerprint,
            model_location=model_location(self.path, self._config.model),
            passage_tokens=settings.passage_tokens or encoder.default_passage_tokens,
        )
        PassageConfig(settings.passage_tokens, settings.overlap)
        return settings


def _documents(
    documents: Iterable[Mapping[str, Any] | Document], problems: Problems, strict: bool
) -> Iterable[Document]:
    fields = FieldNames()
    for number, given in enumerate(documents, start=1):
        where = f"document {number}"
        record: Mapping[str, Any]
        if isinstance(given, Document):
            record = {"id": given.id, "title": given.title, "text": given.text}
        elif isinstance(given, Mapping):
            record = given
        else:
            raise InputError(f"{where} is {type(given).__name__}; give a dictionary or a Document.")
        document = document_from_record(
            record,
            fields,
            where=where,
            # From the content, so that a second call does not replace what the first one added.
            fallback_id=_content_id(record),
            source=given.source if isinstance(given, Document) else "",
            problems=problems,
            strict=strict,
        )
        if document is not None and isinstance(given, Document):
            document = replace(document, metadata=plain_metadata(given.metadata, where))
        if document is not None:
            yield document


def exists_sentence(folder: Path) -> str:
    """What to say where an index is in the way of a new one."""
    return f"There is an index at {folder} already; add --overwrite (overwrite=True) to replace it."


def _content_id(record: Mapping[str, Any]) -> str:
    content = repr(sorted(map(repr, record.items())))
    return f"document-{xxhash.xxh3_64_hexdigest(content.encode(errors='backslashreplace'))}"
