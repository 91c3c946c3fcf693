"""`colrank index`: folders and files into a new index, or read again into one that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from colrank.cli.options import PATH, field_names, field_options, index_option, model_options
from colrank.config import BITS, DEFAULT_BITS, EMBEDDED_MODEL, SMALL_TOKENS, Kind, TokenWeights
from colrank.errors import InputError

_SETTINGS = (
    "projection",
    "passage_tokens",
    "overlap",
    "token_weights",
    "bits",
    "kind",
    "pool",
    "centroids",
    "seed",
    "hybrid",
)


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
@click.option("--centroids", type=int, help="Their number. [default: follows the number of tokens]")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the sample, rotation and k-means.")
@click.option("--hybrid", is_flag=True, help="Keep the words of passages too, for BM25 beside MaxSim.")
@field_options
@click.option("--strict", is_flag=True, help="Any document that cannot be read is an error.")
@click.option(
    "--keep-missing", is_flag=True, help="Of an index that is there: keep documents that are no longer found."
)
@click.pass_context
def command(
    ctx: click.Context,
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
    centroids: int | None,
    seed: int,
    hybrid: bool,
    id_field: tuple[str, ...],
    title_field: tuple[str, ...],
    text_field: tuple[str, ...],
    strict: bool,
    keep_missing: bool,
) -> None:
    """Index folders (with all below them, hidden ones left out) and files.

    Reads .txt .md .rst .html .jsonl .csv .tsv .parquet .arrow, BEIR corpus.jsonl and MS MARCO
    collection.tsv; the text ones also gzipped.

    Where the index is there already, the paths are read again: what is new is added, what changed replaced,
    what is gone deleted, and nothing encoded twice. A build that was stopped goes on where it stood.
    """
    from colrank.api import ColRank
    from colrank.cli.progress import Bars, kept_when_stopped
    from colrank.cli.render import print_build, print_update
    from colrank.corpus import find_files
    from colrank.index import is_index
    from colrank.types import Problems

    find_files(paths, Problems())  # a wrong path is told before the model is loaded
    fields = field_names(id_field, title_field, text_field)
    if is_index(index) and not overwrite:
        opened = ColRank.open(
            index, model=model, device=device, dtype=dtype, trust_remote_code=trust_remote_code
        )
        _check_settings(ctx, index, opened.snapshot.manifest)
        with Bars() as bars, kept_when_stopped():
            report = opened.sync(
                paths, fields=fields, strict=strict, keep_missing=keep_missing, progress=bars
            )
        print_update(index, report)
        return
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
        centroids=centroids,
        seed=seed,
        hybrid=hybrid,
        overwrite=overwrite,
    )
    with Bars() as bars, kept_when_stopped():
        report = built.add_files(paths, fields=fields, strict=strict, progress=bars)
    print_build(index, report, built.stats(), built.encoder.notes)


def _check_settings(ctx: click.Context, index: Path, manifest: Any) -> None:
    """Refuse settings that the index that is there was not made with.

    Raises:
        InputError: naming the first of them.
    """
    from colrank.encoder import projection_option

    for name in _SETTINGS:
        source = ctx.get_parameter_source(name)
        asked = ctx.params[name]
        if source in (None, ParameterSource.DEFAULT):
            continue
        if name == "projection":
            held = projection_option(manifest.model.projection) if manifest.model else None
        else:
            held = getattr(manifest, name)
        if asked != held and not (asked == "auto" and name == "projection"):
            option = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{index} was made with {option} {held if held is not None else 'left to the default'} and "
                f"{asked} was asked for; leave {option} out, or make the index anew with --overwrite."
            )
