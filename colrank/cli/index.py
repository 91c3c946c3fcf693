"""`colrank index`: folders and files into a new index."""

from __future__ import annotations

from pathlib import Path

import click

from colrank.cli.options import PATH, field_options, index_option, model_options
from colrank.config import BITS, DEFAULT_BITS, EMBEDDED_MODEL, SMALL_TOKENS, FieldNames, Kind, TokenWeights


@click.command("index", short_help="Index folders and files of text.")
@click.argument("paths", nargs=-1, type=PATH, metavar="PATH...")
@index_option
@click.option(
    "--overwrite", is_flag=True, help="Replace the index that is there, once the new one is complete."
)
@model_options
@click.option(
    "--projection",
    metavar="auto|none|fixed|truncate:DIM",
    default="auto",
    show_default=True,
    help="Projection of token vectors; auto is the fixed one to 128 dimensions for the embedded model, "
    "truncate:64 the first 64 dimensions of what auto gives.",
)
@click.option(
    "--passage-tokens",
    type=int,
    help="Longest passage, in the model's tokens. [default: the model's document length; embedded: 256]",
)
@click.option(
    "--overlap", type=int, default=0, show_default=True, help="Tokens a passage repeats of the one before."
)
@click.option(
    "--token-weights",
    type=click.Choice(["auto", "none", "idf"]),
    default="auto",
    show_default=True,
    help="Weights of query tokens; auto is idf for the embedded model on text that is mostly not English.",
)
@click.option(
    "--bits",
    type=int,
    metavar=f"[{'|'.join(map(str, BITS))}]",
    help="Bits a dimension: 1 to 8 for residual codes, 16 or 32 for whole vectors. "
    f"[default: 16 below {SMALL_TOKENS:,} tokens, else {DEFAULT_BITS}; without FAISS (extra cpu or gpu), "
    "which makes codes, ask for 16 or 32 there]",
)
@click.option(
    "--kind",
    type=click.Choice(["linear", "quantile"]),
    default="linear",
    show_default=True,
    help="Residual codes: linear (rotated, evenly spaced) or quantile (as in ColBERTv2).",
)
@click.option(
    "--pool",
    type=int,
    default=1,
    show_default=True,
    help="About so many similar tokens of a passage become one vector; 1 keeps all.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the sample, rotation and k-means.")
@field_options
@click.option("--strict", is_flag=True, help="Any document that cannot be read is an error.")
def command(
    paths: tuple[Path, ...],
    index: Path,
    overwrite: bool,
    model: str | None,
    device: str | None,
    dtype: str,
    trust_remote_code: bool,
    projection: str,
    passage_tokens: int | None,
    overlap: int,
    token_weights: TokenWeights,
    bits: int | None,
    kind: Kind,
    pool: int,
    seed: int,
    id_field: tuple[str, ...],
    title_field: tuple[str, ...],
    text_field: tuple[str, ...],
    strict: bool,
) -> None:
    """Index folders (with all below them, hidden ones left out) and files.

    Reads .txt .md .rst .html .jsonl .csv .tsv .parquet .arrow, BEIR corpus.jsonl and MS MARCO
    collection.tsv; the text ones also gzipped.
    """
    from colrank.api import ColRank
    from colrank.cli.progress import Bars
    from colrank.cli.render import print_build
    from colrank.corpus import find_files
    from colrank.types import Problems

    find_files(paths, Problems())  # a wrong path is told before the model is loaded
    built = ColRank.create(
        index,
        model=model or EMBEDDED_MODEL,
        device=device,
        dtype=dtype,
        projection=projection,
        trust_remote_code=trust_remote_code,
        passage_tokens=passage_tokens,
        overlap=overlap,
        token_weights=token_weights,
        bits=bits,
        kind=kind,
        pool=pool,
        seed=seed,
        overwrite=overwrite,
    )
    default = FieldNames()
    fields = FieldNames(
        id_field or default.id_field, title_field or default.title_field, text_field or default.text_field
    )
    try:
        with Bars() as bars:
            report = built.add_files(paths, fields=fields, strict=strict, progress=bars)
    except KeyboardInterrupt:
        click.echo("What was being built is removed; an index that was there before stands.", err=True)
        raise
    print_build(index, report, built.stats(), built.encoder.notes)
