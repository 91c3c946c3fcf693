"""BM25 over the words of passages: words to terms, their tables in a segment, scores over all segments."""

from colrank.lexical.bm25 import Words
from colrank.lexical.tables import FILES, WordTables
from colrank.lexical.terms import passage_terms, query_terms, require_stemmer
from colrank.lexical.writer import write_words

__all__ = [
    "FILES",
    "WordTables",
    "Words",
    "passage_terms",
    "query_terms",
    "require_stemmer",
    "write_words",
]
