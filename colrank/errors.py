"""Every error that colrank raises on purpose.

    ColRankError
    ├── InputError            something the caller gave: a path, a value, a document (exit code 2)
    │   ├── CorpusError       a document or file that cannot be read, under `strict`
    │   └── ProjectionMisfit  a projection that does not fit the model
    ├── IndexFault            an index that is not there, is damaged, or may not be written (exit code 2)
    │   ├── IndexMissing
    │   ├── IndexExists
    │   ├── IndexLocked
    │   ├── IndexDamaged
    │   └── IndexFormat
    ├── ModelError            a model that cannot be found, loaded or used (exit code 2)
    │   └── ModelMismatch
    ├── StageFailed           a reranker or judge failed, and `fail` was asked for (exit code 4)
    └── MissingExtra          an optional dependency that is not installed (exit code 2)

Each message is one sentence that names the thing and the remedy.
"""

from __future__ import annotations


class ColRankError(Exception):
    """Base of all errors that colrank raises on purpose; its text is meant for the user."""

    exit_code = 2


class InputError(ColRankError):
    """A value, path or document that the caller gave cannot be used."""


class CorpusError(InputError):
    """A document or file cannot be read and `strict` was asked for."""


class ProjectionMisfit(InputError):
    """A projection was asked for that is made for another dimension than the model's."""


class IndexFault(ColRankError):
    """Base of the errors about an index on disk."""


class IndexMissing(IndexFault):
    """There is no index at the path."""


class IndexExists(IndexFault):
    """There is something at the path already and overwriting was not asked for."""


class IndexLocked(IndexFault):
    """Another process is writing this index."""


class IndexDamaged(IndexFault):
    """A file of the index is missing, cut short, or not what the manifest says."""


class IndexFormat(IndexFault):
    """The index was written in a format version that this colrank does not read."""


class ModelError(ColRankError):
    """A model cannot be found, loaded, or used as a late-interaction encoder."""


class ModelMismatch(ModelError):
    """A query was to be encoded otherwise than the passages of the index."""


class StageFailed(ColRankError):
    """A stage after the search failed: a service did not answer, or a model broke."""

    exit_code = 4


class MissingExtra(ColRankError):
    """An optional dependency is not installed; the text names the extra."""


def first_line(error: Exception) -> str:
    """What an error of a library says, in one line; its kind where it says nothing."""
    said = str(error).strip()
    return said.splitlines()[0] if said else type(error).__name__
