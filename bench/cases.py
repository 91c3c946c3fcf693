"""Share of the judged cases of `tests/data/cases.jsonl` that each ranker solves, by language and by kind.

    python bench/cases.py [--rerank NAME]... [--mmr 0.7] [--out bench/results/cases.json]

Each case is ranked over its own passages alone, which come in the order of a retriever. A case with an
answer is solved when an answering passage stands first and nothing was refused; one without, when the stage
refused. BM25 and MaxSim give no calibrated score and cannot refuse, so that what they can reach is the
share of the answerable cases. A reranker is judged with the usual floor.

BM25 counts how rare a word is over all passages of a language, since five passages say too little. MaxSim
is the embedded encoder with the defaults of an index, made of the case's passages.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
from judged import machine

from colrank import ColRank, ColRankError, Hits, rerank

# The reader of the cases bears this file's name, so that its folder has to come first.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from cases import ANSWERS, KINDS, LANGUAGES, Case, diverse, read_cases, solved

FLOOR = 0.75
STEMMERS = {"es": "spanish", "en": "english"}


@dataclass(frozen=True)
class Outcome:
    """What a ranker made of a case.

    Attributes:
        order: ids of the passages, best first, as if nothing was judged.
        handed: ids that are handed on, best first.
        status: of the verdict, "" where nothing was judged on purpose.
        seconds: the whole call.
        warnings: sentences of the stages.
    """

    order: list[str]
    handed: list[str]
    status: str = ""
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)


Ranker = Callable[[Case], Outcome]


def as_retrieved(case: Case) -> Outcome:
    """The order in which the passages stand in the file."""
    names = [passage.id for passage in case.passages]
    return Outcome(names, names)


def bm25_ranker(cases: Sequence[Case]) -> tuple[Ranker, str]:
    """BM25, with one index a language; also its name, which says whether words were stemmed."""
    try:
        import Stemmer
    except ImportError:
        stemmers, name = dict.fromkeys(LANGUAGES), "BM25, unstemmed"
    else:
        stemmers, name = {lang: Stemmer.Stemmer(STEMMERS[lang]) for lang in LANGUAGES}, "BM25"

    def words(lang: str, texts: list[str]) -> list[list[str]]:
        found: list[list[str]] = bm25s.tokenize(
            texts, stopwords=lang, stemmer=stemmers[lang], return_ids=False, show_progress=False
        )
        return found

    indexes, firsts = {}, {}
    for lang in LANGUAGES:
        texts: list[str] = []
        for case in cases:
            if case.lang == lang:
                firsts[case.id] = len(texts)
                texts += [passage.text for passage in case.passages]
        indexes[lang] = bm25s.BM25()
        if texts:
            indexes[lang].index(words(lang, texts), show_progress=False)

    def rank(case: Case) -> Outcome:
        begin = time.perf_counter()
        query = words(case.lang, [case.query])[0]
        scores = np.zeros(len(case.passages))
        if query:
            first = firsts[case.id]
            scores = indexes[case.lang].get_scores(query)[first : first + len(case.passages)]
        # Equal scores stay in the order of the retriever.
        names = [case.passages[place].id for place in np.argsort(-scores, kind="stable")]
        return Outcome(names, names, seconds=time.perf_counter() - begin)

    return rank, name


def maxsim_ranker(folder: Path, mmr: float | None) -> Ranker:
    """The embedded encoder; each case is an index whose documents are the case's passages."""

    def rank(case: Case) -> Outcome:
        path = folder / case.id
        if path.exists():
            index = ColRank.open(path)
        else:
            index = ColRank.create(path)
            index.add([{"id": passage.id, "text": passage.text} for passage in case.passages])
        index.search(case.query, k=1)  # so that no time of loading is in the one below
        # A long passage may be several in the index: the best of them stands for it.
        hits = index.search(case.query, k=len(case.passages), by="document", **_diversity(mmr))
        names = [hit.document for hit in hits]
        seconds = sum(hits.timings.values())
        return Outcome(names, names, seconds=seconds, warnings=hits.warnings)

    return rank


def reranker(name: str, mmr: float | None) -> Ranker:
    """A real reranker, judged with the usual floor."""

    def rank(case: Case) -> Outcome:
        def stages(floor: float | None) -> Hits:
            return rerank(case.query, case.candidates(), reranker=name, judge=floor, mmr=mmr, k=10)

        begin = time.perf_counter()
        hits = stages(FLOOR)
        seconds = time.perf_counter() - begin
        if hits.verdict is None:
            raise SystemExit(f"{name} was to be judged and gave no verdict.")
        handed = [hit.id for hit in hits]
        order = handed + hits.left_out.get("judge", [])
        if mmr is not None:
            # MMR orders what passed the judge alone: seen over all passages, it needs a run without one.
            order = [hit.id for hit in stages(None)]
        return Outcome(order, handed, hits.verdict.status, seconds, hits.warnings)

    return rank


def _diversity(mmr: float | None) -> dict[str, Any]:
    return {} if mmr is None else {"mmr": mmr}


def groups(cases: Sequence[Case]) -> Iterator[tuple[str, list[Case]]]:
    """The groups whose shares are told: name and cases."""
    answerable = [case for case in cases if case.answerable]
    for name, members in (("all", list(cases)), ("answerable", answerable)):
        yield name, members
        for lang in LANGUAGES:
            yield f"{name}, {lang}", [case for case in members if case.lang == lang]
    for kind in KINDS:
        members = [case for case in cases if case.kind == kind]
        yield kind, members
        for lang in LANGUAGES:
            yield f"{kind}, {lang}", [case for case in members if case.lang == lang]


def measure(name: str, rank: Ranker, cases: Sequence[Case]) -> dict[str, Any]:
    """Rank every case, and count what was solved."""
    outcomes = {case.id: rank(case) for case in cases}

    def right(case: Case) -> bool:
        outcome = outcomes[case.id]
        return solved(case, outcome.handed, outcome.status == "refused")

    answerable = [case for case in cases if case.answerable]
    repeated = [case for case in cases if case.kind == "near_duplicate"]
    # The first call loads the model.
    times = [outcomes[case.id].seconds for case in cases[1:]]
    row: dict[str, Any] = {
        "ranker": name,
        "solved": {group: _share(map(right, members)) for group, members in groups(cases)},
        "answer_first": _share(
            case.passage(outcomes[case.id].order[0]).grade == ANSWERS for case in answerable
        ),
        "first_three_differ": _share(diverse(case, outcomes[case.id].order) for case in repeated),
        "ms_per_query": round(1000 * statistics.median(times), 2),
    }
    statuses = Counter(outcome.status for outcome in outcomes.values() if outcome.status)
    if statuses:
        row["floor"] = FLOOR
        row["verdicts"] = dict(statuses)
        row["refused_though_answerable"] = sum(outcomes[c.id].status == "refused" for c in answerable)
    row["unsolved"] = [case.id for case in answerable if not right(case)]
    row["warnings"] = Counter(sentence for outcome in outcomes.values() for sentence in outcome.warnings)
    return row


def _share(found: Iterable[bool]) -> dict[str, Any]:
    values = list(found)
    share = round(sum(values) / len(values), 4) if values else None
    return {"solved": sum(values), "of": len(values), "share": share}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A column a ranker, a line a group: solved of how many, and the share."""
    width = max(14, *(len(row["ranker"]) + 2 for row in rows))
    lines = [f"{'':24}" + "".join(f"{row['ranker']:>{width}}" for row in rows)]

    def line(name: str, counts: Sequence[dict[str, Any]]) -> str:
        cells = [f"{c['solved']}/{c['of']}  {c['share'] or 0:.2f}" for c in counts]
        return f"{name:24}" + "".join(f"{cell:>{width}}" for cell in cells)

    lines += [line(group, [row["solved"][group] for row in rows]) for group in rows[0]["solved"]]
    for key in ("answer_first", "first_three_differ"):
        lines.append(line(key.replace("_", " "), [row[key] for row in rows]))
    cells = "".join(f"{row['ms_per_query']:>{width}}" for row in rows)
    return "\n".join([*lines, f"{'median ms':24}{cells}"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rerank", action="append", default=[], metavar="NAME", help="may be repeated")
    parser.add_argument("--mmr", type=float, help="measure MaxSim and the rerankers with this lambda too")
    parser.add_argument("--out", type=Path, help="keep the figures, with the machine, in this file")
    options = parser.parse_args()
    cases = read_cases()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bm25, bm25_name = bm25_ranker(cases)
        rankers: list[tuple[str, Ranker]] = [("as retrieved", as_retrieved), (bm25_name, bm25)]
        for mmr in (None,) if options.mmr is None else (None, options.mmr):
            after = "" if mmr is None else f", MMR {mmr:g}"
            rankers.append((f"MaxSim{after}", maxsim_ranker(Path(folder), mmr)))
            rankers += [(f"{name}{after}", reranker(name, mmr)) for name in options.rerank]
        try:
            for name, rank in rankers:
                rows.append(measure(name, rank, cases))
        except ColRankError as error:
            raise SystemExit(f"{name}: {error}") from error
    print(table(rows))
    print(
        f"{len(cases)} cases. What has no judge cannot refuse, and so solves none of the "
        f"{sum(not case.answerable for case in cases)} unanswerable ones: compare it by the lines answerable."
    )
    for row in rows[1:]:
        if "verdicts" in row:
            print(
                f"{row['ranker']}, floor {FLOOR:g}: {row['verdicts']}; refused though answerable: "
                f"{row['refused_though_answerable']}."
            )
        print(f"{row['ranker']}, unsolved though answerable: {', '.join(row['unsolved']) or 'none'}.")
        for sentence, count in row["warnings"].items():
            print(f"{row['ranker']}, warned {count} times: {sentence}")
    if options.out:
        results = {"machine": machine(), "cases": len(cases), "rows": rows}
        options.out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"Wrote {options.out}")


if __name__ == "__main__":
    main()
