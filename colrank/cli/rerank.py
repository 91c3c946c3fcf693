"""`colrank rerank`: reranker, judge and MMR over candidates that another search found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from colrank.cli.options import PATH, json_option, k_option, model_options
from colrank.cli.stage_options import stage_options
from colrank.config import CascadeConfig, check_k
from colrank.errors import InputError


@click.command("rerank", short_help="Rerank candidates that another search found.")
@click.argument("query")
@click.argument("file", type=PATH)
@k_option("How many hits.")
@stage_options
@model_options
@json_option
def command(
    query: str,
    file: Path,
    k: int,
    model: str | None,
    device: str | None,
    dtype: str,
    trust_remote_code: bool,
    as_json: bool,
    **cascade: Any,
) -> None:
    """Put the candidates of FILE through the stages that follow a search; no index is needed.

    FILE holds a JSON object a line, best first: text, and maybe id, document, title, score and vector; - is
    standard input. The model encodes candidates without vectors for --mmr.

    \b
    colrank rerank "how long is the guarantee?" found.jsonl --rerank hf:BAAI/bge-reranker-v2-m3 -k 5

    Exit code 3: the judge refused them all.
    """
    check_k(k)
    if not CascadeConfig(**cascade).active:
        raise InputError("Nothing was asked for; name a reranker with --rerank, or give --mmr or --dedupe.")
    from colrank.candidates import read_candidates, rerank
    from colrank.cli.hits import REFUSED, echo_hits, print_hits
    from colrank.config import EMBEDDED_MODEL

    hits = rerank(
        query,
        read_candidates(file),
        k,
        model=model or EMBEDDED_MODEL,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
        **cascade,
    )
    if as_json:
        echo_hits(hits, None, summary=True, told=set())
    else:
        print_hits(hits, several=False, told=set())
    if hits.verdict is not None and hits.verdict.status == "refused":
        raise click.exceptions.Exit(REFUSED)
