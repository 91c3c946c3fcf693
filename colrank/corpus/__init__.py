"""From the user's files to documents: finding them, reading them, counting what cannot be read."""

from colrank.corpus.faults import HARMLESS
from colrank.corpus.files import SUFFIXES, CorpusFile, find_files
from colrank.corpus.read import read_corpus, read_file
from colrank.corpus.records import document_from_record, plain_metadata

__all__ = [
    "HARMLESS",
    "SUFFIXES",
    "CorpusFile",
    "document_from_record",
    "find_files",
    "plain_metadata",
    "read_corpus",
    "read_file",
]
