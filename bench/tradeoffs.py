"""Storage against precision on judged collections, in two languages: the page docs/tradeoffs.md.

    COLRANK_DATA=... python bench/tradeoffs.py [--english scifact cranfield med] [--spanish squad-es xquad-es]
    python bench/tradeoffs.py --from-results        # the page and the pictures again, nothing is measured

Each collection is compared by the fast grid and the embedded model, with baselines: the result goes to
results/tradeoffs-NAME.json, the picture to docs/tradeoffs-NAME.png. The page is made of these files alone.
What was encoded stays in the cache (COLRANK_CACHE), so that a second run measures only.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from judged import RESULTS, data_folder, write_results

from colrank import ColRank, Comparison

DOCS = Path(__file__).parent.parent / "docs"
ENGLISH, SPANISH = ("scifact", "cranfield", "med"), ("squad-es", "xquad-es")
LOSS = 0.01
"""Loss at worst that the recommendation allows."""

QUERIES = 300
"""Queries of a collection, most: each is searched for in every variant, which takes hours with thousands."""

LARGEST_PICTURE = 150_000
"""Bytes of a picture, most."""


def measure(collection: str, language: str, sample: int) -> None:
    """Compare variants on a collection and keep the result."""
    folder = data_folder() / collection
    begin = time.perf_counter()
    found = ColRank.compare(folder / "corpus.jsonl", folder, folder, max_loss=LOSS, sample=sample)
    seconds = round(time.perf_counter() - begin, 1)
    encoded = any(model.encoded for model in found.models)
    print(f"{collection}: {seconds} s, {'encoded' if encoded else 'from the cache'}", flush=True)
    write_results(
        f"tradeoffs-{collection}",
        {
            "collection": collection,
            "language": language,
            "seconds": seconds,
            "encoded": encoded,
            "comparison": found.to_json(),
        },
    )


def draw(result: Mapping[str, Any]) -> None:
    """The picture of a result, as large as fits."""
    from colrank.compare.plot import picture

    path = DOCS / f"tradeoffs-{result['collection']}.png"
    for dpi in (110, 95, 80, 70):
        picture(Comparison.from_json(result["comparison"])).savefig(path, dpi=dpi)
        if path.stat().st_size < LARGEST_PICTURE:
            break
    print(f"Wrote {path}, {path.stat().st_size:,} bytes")


def kept() -> list[dict[str, Any]]:
    """Results that were kept, English first, each language in the order of the defaults, then by name."""
    order = [*ENGLISH, *SPANISH]
    found = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("tradeoffs-*.json"))
    ]
    if not found:
        raise SystemExit(f"There is no result in {RESULTS}; run without --from-results first.")

    def place(result: Mapping[str, Any]) -> tuple[bool, int, str]:
        name = result["collection"]
        return result["language"] != "English", order.index(name) if name in order else len(order), name

    return sorted(found, key=place)


def page(results: Sequence[Mapping[str, Any]]) -> str:
    """The page in Markdown, from results as they are kept."""
    return "\n".join([_head(results), *(_section(result) for result in results)])


def _head(results: Sequence[Mapping[str, Any]]) -> str:
    machines = {json.dumps(result["machine"]): result["machine"] for result in results}
    lines = "\n".join(
        f"Measured on {each['processor']} ({each['capability']}), {each['threads']} threads, torch "
        f"{each['torch']}."
        for each in machines.values()
    )
    command = " ".join(["python bench/tradeoffs.py", *_options(results)])
    fronts = "\n".join(filter(None, (_fronts(language, results) for language in ("English", "Spanish"))))
    return f"""# What storage buys

Each variant of an index is built from the same vectors of a collection and asked the same judged queries.
Loss is that of nDCG@10 against float32 vectors with every passage scored (the row *float32*); recall@10 is
the share of that row's best ten documents. Intervals hold 95%, from a bootstrap over queries; that of the
loss is paired. Bytes are of all files, with text and ids; *x single vector* sets tokens, centroids and
postings against one float32 vector a passage. *Time* is the median of single queries against that of
float32, measured in turns. These collections are small: what a prefilter saves shows on larger ones only.

{lines}

    COLRANK_DATA=FOLDER {command}

The page is made of `bench/results/tradeoffs-*.json`; `--from-results` makes it again.

{fronts}

A variant is on the front when no other gives as much nDCG@10 for fewer bytes. Differences smaller than the
intervals can put a variant on it, or keep it off.
"""


def _options(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Options that give these collections, where they are not the defaults."""
    options = []
    for language, usual in (("English", ENGLISH), ("Spanish", SPANISH)):
        names = tuple(each["collection"] for each in results if each["language"] == language)
        if names != usual:
            options.append(" ".join([f"--{language.lower()}", *names]))
    return options


def _fronts(language: str, results: Sequence[Mapping[str, Any]]) -> str:
    """Which variants are on the front of every collection of a language."""
    comparisons = [each["comparison"] for each in results if each["language"] == language]
    if not comparisons:
        return ""
    rows = comparisons[0]["rows"]
    every = [
        row["name"]
        for row in rows
        if all(
            any(other["name"] == row["name"] and other["on_front"] for other in each["rows"])
            for each in comparisons
        )
    ]
    named = "; ".join(every) if every else "none"
    count = f"all {len(comparisons)} collections" if len(comparisons) > 1 else "the one collection"
    return f"- {language}, on the front of {count}: {named}."


def _section(result: Mapping[str, Any]) -> str:
    found, name = result["comparison"], result["collection"]
    corpus = found["models"][0]
    how = "encoding included" if result["encoded"] else "without encoding"
    warnings = "".join(f"\n{sentence}\n" for sentence in found["warnings"])
    return f"""## {name} ({result["language"]})

{corpus["documents"]:,} documents, {corpus["passages"]:,} passages, {corpus["tokens"]:,} tokens;
{found["queries"]:,} queries. Model {corpus["name"]}. The comparison took {result["seconds"]:,.0f} s, {how}.
{warnings}
{_table(found)}

Bold: on the front. {found["sentence"]}

![{name}: bytes a passage and time against nDCG@10](tradeoffs-{name}.png)

{_others(found)}
"""


def _table(found: Mapping[str, Any]) -> str:
    heads = [
        "variant",
        "bytes a token",
        "bytes a passage",
        "x single vector",
        "recall@10",
        "nDCG@10",
        "loss",
        "time",
    ]
    exact = next(row for row in found["rows"] if row["name"] == found["reference"])
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in found["rows"]:
        cells = [
            f"**{row['name']}**" if row["on_front"] else row["name"],
            f"{row['bytes_per_token']:,.1f}",
            f"{row['bytes_per_passage']:,.0f}",
            f"{row['times_single']:,.1f}",
            f"{row['agreement']['recall@10']['mean']:.3f}",
            _between(row["judged"]["nDCG@10"], ""),
            _between(row["loss"], "+"),
            f"{row['median_ms'] / exact['median_ms']:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _others(found: Mapping[str, Any]) -> str:
    if not found["baselines"]:
        return ""
    lines = ["| system | bytes a passage, without text | nDCG@10 |", "|---|---|---|"]
    lines += [
        f"| {each['name']} | {each['bytes_per_passage']:,.0f} | {_between(each['quality'], '')} |"
        for each in found["baselines"]
    ]
    return "\n".join(lines)


def _between(estimate: Mapping[str, float], sign: str) -> str:
    mean, low, high = (f"{estimate[part]:{sign}.3f}" for part in ("mean", "low", "high"))
    return f"{mean} ({low} to {high})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--english", nargs="*", default=ENGLISH, metavar="NAME")
    parser.add_argument("--spanish", nargs="*", default=SPANISH, metavar="NAME")
    parser.add_argument("--sample", type=int, default=QUERIES, help="Most queries of a collection.")
    parser.add_argument("--from-results", action="store_true", help="Only the page and the pictures.")
    options = parser.parse_args()
    if not options.from_results:
        for language, names in (("English", options.english), ("Spanish", options.spanish)):
            for name in names:
                measure(name, language, options.sample)
    results = kept()
    for result in results:
        draw(result)
    path = DOCS / "tradeoffs.md"
    path.write_text(page(results), encoding="utf-8")
    print(f"Wrote {path}")


if __name__ == "__main__":
    main()
