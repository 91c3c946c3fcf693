"""Documents into passages that fit the model, cut at sentence ends, counted in the model's own tokens."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from colrank.types import Document, Passage, Problems, Span

TokenSpans = Callable[[str], list[Span]]
"""Characters of each token of a text, in order, without the tokens that the model adds."""

SPLIT_WORDS = "documents with a word longer than a passage, split inside"
CUT_TITLES = "titles longer than half a passage, encoded in part"


def encoder_input(prefix: str, text: str) -> str:
    """The string that is encoded for a passage: its prefix (the title), one space, its text."""
    return f"{prefix} {text}" if prefix else text


@dataclass(frozen=True, slots=True)
class Splitter:
    """Splits documents into passages of at most `budget` tokens, title included.

    Args:
        token_spans: tokenizes without the model's own markers.
        budget: most tokens of title and text together.
        overlap: tokens that a passage repeats of the one before it, at most; fewer where a sentence
            or a word begins later.

    A document that fits is one passage. A longer one is cut at sentence ends into passages of about
    equal length, so that none is a stray end; a sentence longer than a passage is cut between words,
    and a word longer than a passage inside. The ranges cover the document's text without a gap.
    """

    token_spans: TokenSpans
    budget: int
    overlap: int = 0

    def split(self, document: Document, language: str, problems: Problems) -> list[Passage]:
        """Return the passages of one document, at least one; count in `problems` what had to be broken.

        The tokens of a whole may outnumber those of its parts in some tokenizers: each passage is
        counted as it will be encoded, and the document is split finer when one does not fit.
        """
        has_text = bool(document.text.strip())
        body = document.text if has_text else document.title
        prefix = self._prefix(document.title.strip(), document.id, problems) if has_text else ""
        prefix_tokens = len(self.token_spans(prefix)) if prefix else 0
        spans = self.token_spans(body)
        room = self.budget - prefix_tokens
        while True:
            found: list[int] = []
            ranges = self._ranges(body, spans, room, language, found)
            passages = [
                Passage(ordinal, body[start:end], start, end, prefix)
                for ordinal, (start, end) in enumerate(ranges)
            ]
            excess = max(
                len(self.token_spans(encoder_input(prefix, passage.text))) - self.budget
                for passage in passages
            )
            if excess <= 0 or room <= 1:
                if any(_inside_word(body, spans[cut].start) for cut in found):
                    problems.add(SPLIT_WORDS, document.id)
                return passages
            room = max(1, room - excess)

    def _prefix(self, title: str, name: str, problems: Problems) -> str:
        spans = self.token_spans(title) if title else []
        most = self.budget // 2
        if len(spans) <= most:
            return title
        problems.add(CUT_TITLES, name)
        return title[: spans[most].start].rstrip()

    def _ranges(
        self, body: str, spans: list[Span], room: int, language: str, found: list[int]
    ) -> list[tuple[int, int]]:
        if len(spans) <= room:
            return [(0, len(body))]
        overlap = min(self.overlap, room // 2)
        starts = _sentence_tokens(body, spans, language)
        pieces = _pieces(body, spans, starts, room - overlap, found)
        firsts = _pack(pieces, len(spans), room - overlap)
        ranges = []
        for first, last in pairwise([*firsts, len(spans)]):
            begin = first
            if overlap and first:
                begin = _overlap_start(body, spans, starts, first, overlap)
            # A passage owns the characters between its tokens and those up to the next passage.
            ranges.append((_left(spans, begin), len(body) if last == len(spans) else spans[last].start))
        return ranges


def _left(spans: list[Span], token: int) -> int:
    return spans[token].start if token else 0


def _sentence_tokens(body: str, spans: list[Span], language: str) -> list[int]:
    """First token of each sentence, ascending, beginning with 0."""
    import sentencex

    boundaries: Iterable[dict[str, int]] = sentencex.get_sentence_boundaries(language, body)
    begins = [span.start for span in spans]
    return sorted({0, *(bisect_left(begins, b["start_index"]) for b in boundaries)} - {len(spans)})


# Scripts that write no spaces between words: a cut there breaks none that could be seen.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def _inside_word(body: str, at: int) -> bool:
    around = body[at - 1 : at + 1]
    return around.isalnum() and not _UNSPACED.search(around)


def _begins_word(body: str, spans: list[Span], token: int) -> bool:
    start = spans[token].start
    return token == 0 or spans[token - 1].end < start or body[start - 1].isspace()


def _pieces(body: str, spans: list[Span], starts: list[int], room: int, found: list[int]) -> list[int]:
    """First token of each piece: the sentences, the long ones cut so that every piece fits."""
    pieces = []
    for first, last in pairwise([*starts, len(spans)]):
        at = first
        pieces.append(at)
        while last - at > room:
            cut = at + room
            while cut > at and not _begins_word(body, spans, cut):
                cut -= 1
            if cut == at:
                cut = at + room
                found.append(cut)
            # Tokens of one character share a start; a cut between them would make a range of no text.
            while cut < last and spans[cut].start == spans[cut - 1].start:
                cut += 1
            if cut >= last:
                break
            at = cut
            pieces.append(at)
    return pieces


def _pack(pieces: list[int], total: int, room: int) -> list[int]:
    """First token of each passage: pieces packed towards equal lengths of at most `room` tokens."""
    firsts = [0]
    goal = _goal(total, room)
    for begin, end in pairwise([*pieces, total]):
        length = begin - firsts[-1]
        size = end - begin
        if length and (length + size > room or length + size / 2 > goal):
            firsts.append(begin)
            goal = _goal(total - begin, room)
    return firsts


def _goal(remaining: int, room: int) -> float:
    return remaining / -(-remaining // room)


def _overlap_start(body: str, spans: list[Span], starts: list[int], first: int, overlap: int) -> int:
    """Where a passage begins that may repeat `overlap` tokens: at a sentence, else a word, else `first`."""
    earliest = max(0, first - overlap)
    sentence = starts[min(bisect_left(starts, earliest), len(starts) - 1)]
    if earliest <= sentence < first:
        return sentence
    for token in range(earliest, first):
        if _begins_word(body, spans, token):
            return token
    return first
