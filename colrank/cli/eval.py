"""`colrank eval`: how good the index is at queries with known answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from colrank.cli.options import (
    PATH,
    by_option,
    index_option,
    json_option,
    k_option,
    model_options,
    search_options,
)
from colrank.cli.stage_options import stage_options
from colrank.config import By, query_configs
from colrank.errors import InputError

USUAL = 50
"""Candidates of the table of stages, when several numbers are compared."""


@click.command("eval", short_help="Judge the index by queries with known answers.")
@click.argument("folder", type=PATH, required=False, metavar="[FOLDER]")
@click.option(
    "--queries",
    type=PATH,
    help="File of queries: .jsonl (_id, text), .tsv (id, query), or .npz of one array of vectors an id.",
)
@click.option(
    "--qrels",
    type=PATH,
    help="File of judgements: TSV of query, document and grade, or TREC's four columns.",
)
@click.option(
    "--depth", type=int, default=100, show_default=True, help="Documents ranked for each query, at least 100."
)
@click.option("--run", "run_file", type=PATH, help="Write the ranked documents as a TREC run file.")
@click.option("--baseline", type=PATH, help="TREC run file to compare with, query by query.")
@click.option(
    "--failures", is_flag=True, help="List the queries without a relevant document among the best 10."
)
@click.option(
    "--stages", is_flag=True, help="Measure what each stage of the search loses; encodes the index again."
)
@click.option(
    "--vectors",
    type=PATH,
    help="For --stages: .npz of one array for each document that was added as vectors.",
)
@search_options
@k_option("Hits after all stages.")
@by_option("What -k and --candidates count.")
@click.option(
    "--candidates",
    default="50",
    show_default=True,
    metavar="N[,N...]",
    help="Hits that the stages after the search look at; several numbers show where gain flattens.",
)
@click.option(
    "--prices", type=PATH, help="TOML table of what rerankers ask for; configs/prices.toml is one to edit."
)
@click.option("--max-ms", type=float, help="Milliseconds that a query may take in all, for the verdict.")
@stage_options
@index_option
@model_options
@json_option
def command(
    folder: Path | None,
    queries: Path | None,
    qrels: Path | None,
    depth: int,
    run_file: Path | None,
    baseline: Path | None,
    failures: bool,
    stages: bool,
    vectors: Path | None,
    index: Path,
    model: str | None,
    device: str | None,
    dtype: str,
    trust_remote_code: bool,
    k: int,
    by: By,
    candidates: str,
    prices: Path | None,
    max_ms: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Judge the index by queries with known answers; a document stands by its best passage.

    With --rerank, --mmr or --dedupe each of these stages is judged too, side by side on the same queries,
    and a sentence says whether reranking pays.

    FOLDER is in BEIR layout: queries.jsonl, and test.tsv (or one .tsv file) in qrels/. --queries and --qrels
    name other files.
    """
    if folder is None and (queries is None or qrels is None):
        raise InputError("Name a folder with queries.jsonl and qrels/, or give --queries and --qrels.")
    if folder is not None and not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give files with --queries and --qrels.")
    if folder is not None and queries is not None and qrels is not None:
        raise InputError(f"With --queries and --qrels nothing is read from {folder}; leave one of them out.")
    asked, answers = queries or folder, qrels or folder
    assert asked is not None
    assert answers is not None
    if run_file is not None and (run_file.is_dir() or not run_file.absolute().parent.is_dir()):
        raise InputError(f"Cannot write the run {run_file}; name a file in a folder that is there.")
    counts = _counts(candidates)
    # The usual number where it is among those asked for, else the largest.
    options["candidates"] = USUAL if USUAL in counts else counts[-1]
    query_configs(options)

    from colrank.api import ColRank
    from colrank.cli.judged import print_evaluation
    from colrank.cli.progress import Bars
    from colrank.cli.render import echo_json
    from colrank.evaluate import write_run

    opened = ColRank.open(index, model=model, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    with Bars() as bars:
        found = opened.evaluate(
            asked,
            answers,
            depth=depth,
            stages=stages,
            vectors=vectors,
            baseline=baseline,
            k=k,
            by=by,
            sweep=counts if len(counts) > 1 else (),
            prices=prices,
            max_ms=max_ms,
            progress=bars,
            **options,
        )
    # The figures come first: a run that its format cannot carry must not take them along.
    if as_json:
        echo_json(found.to_json())
    else:
        print_evaluation(found, failures=failures)
    if run_file is not None:
        write_run(run_file, found.run)
        click.echo(f"Wrote {run_file}", err=as_json)


def _counts(text: str) -> list[int]:
    """The numbers of candidates, ascending."""
    try:
        counts = sorted({int(part) for part in text.split(",")})
    except ValueError:
        counts = []
    if not counts or counts[0] < 1:
        raise InputError(f"--candidates is {text!r}; give whole numbers of at least 1, such as 10,20,50.")
    return counts
