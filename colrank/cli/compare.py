"""`colrank compare`: storage against precision on one's own corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from colrank.cli.options import PATH, dtype_option, field_options, json_option, k_option, stacked
from colrank.config import EMBEDDED_MODEL, FieldNames, check_k
from colrank.errors import InputError

_model_options = stacked(
    click.option(
        "--model",
        "models",
        multiple=True,
        help="Late-interaction model: a folder or a name on the hub; several are compared with each other, "
        "by judged queries. [default: the embedded one, or the index's]",
    ),
    click.option("--device", help="As for index."),
    dtype_option("--dtype", "As for index."),
    click.option("--trust-remote-code", is_flag=True, help="As for index."),
)
"""As other commands have them, but for a --model that may be given again."""


@click.command("compare", short_help="Show what each byte of storage buys on your corpus.")
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="PATH...")
@click.option("--queries", type=PATH, help="Queries with known answers: .jsonl, .tsv, .npz, or a folder.")
@click.option("--qrels", type=PATH, help="Their judgements: TSV, TREC, or a folder.")
@click.option(
    "--grid",
    type=click.Choice(["fast", "full"]),
    default="fast",
    show_default=True,
    help="Variants to compare, unless axes are given.",
)
@click.option("--bits", metavar="N[,N...]", help="Bits a dimension to compare; 16 and 32 are whole vectors.")
@click.option("--dim", metavar="N[,N...]", help="Dimensions to keep of each vector.")
@click.option("--pool", metavar="N[,N...]", help="Similar tokens that become one vector.")
@click.option("--centroids", metavar="N[,N...]", help="Numbers of centroids.")
@click.option("--kind", metavar="KIND[,KIND]", help="Kinds of residual codes: linear, quantile.")
@click.option("--scan", metavar="SCAN[,SCAN]", help="always, never (the prefilter), auto. [default: always]")
@click.option("--nprobe", metavar="N[,N...]", help="Centroids looked up for each query token.")
@click.option("--shortlist", metavar="N[,N...]", help="Passages scored from their codes.")
@k_option("Hits of the timed searches.")
@click.option("--sample", type=int, help="Most queries. [default: all judged ones, or 200 drawn sentences]")
@click.option("--max-bytes-per-passage", type=float, help="Budget for the recommendation.")
@click.option("--max-loss", type=float, help="Budget: loss by the upper end of its interval. [default: 0.01]")
@click.option("--max-ms", type=float, help="Budget: median milliseconds a query.")
@click.option("--rerank", metavar="NAME", help="Put this reranker on top of each system too.")
@click.option("--no-baselines", is_flag=True, help="Leave out one vector a passage and BM25.")
@click.option("--plot", type=PATH, help="Draw the picture: .png, .svg or .pdf.")
@click.option("--html", type=PATH, help="Write a report in one file.")
@click.option("--markdown", type=PATH, help="Write the table in Markdown.")
@click.option("--apply", type=PATH, metavar="INDEX", help="Build this index with the recommended variant.")
@click.option("--overwrite", is_flag=True, help="Replace the index that --apply names.")
@click.option(
    "--cache",
    type=PATH,
    envvar="COLRANK_CACHE",
    show_envvar=True,
    help="Where the encoded corpus is kept. [default: the user's cache]",
)
@click.option("--passage-tokens", type=int, help="As for index.")
@click.option("--overlap", type=int, default=0, show_default=True, help="As for index.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of drawn queries and codecs.")
@field_options
@_model_options
@json_option
def command(
    paths: tuple[Path, ...],
    queries: Path | None,
    qrels: Path | None,
    grid: str,
    kind: str | None,
    scan: str | None,
    k: int,
    sample: int | None,
    max_bytes_per_passage: float | None,
    max_loss: float | None,
    max_ms: float | None,
    rerank: str | None,
    no_baselines: bool,
    plot: Path | None,
    html: Path | None,
    markdown: Path | None,
    apply: Path | None,
    overwrite: bool,
    cache: Path | None,
    passage_tokens: int | None,
    overlap: int,
    seed: int,
    id_field: tuple[str, ...],
    title_field: tuple[str, ...],
    text_field: tuple[str, ...],
    models: tuple[str, ...],
    device: str | None,
    dtype: str,
    trust_remote_code: bool,
    as_json: bool,
    **numbers: Any,
) -> None:
    """Compare ways to store a corpus: bytes, agreement with float32 exact, judged quality, time.

    PATH is what index reads, or one index. It is encoded once a model and kept in the cache. Without
    queries, sentences drawn from the passages ask, each taken out of its passage.

    \b
    colrank compare corpus/ --plot compare.png
    colrank compare judged/corpus.jsonl --queries judged/ --qrels judged/ --max-loss 0.005 --apply my.index
    colrank compare corpus/ --queries judged/ --qrels judged/ --model embedded --model ./my-model
    """
    check_k(k)
    values: dict[str, Any] = {name: _numbers(name, text) for name, text in numbers.items() if text}
    values |= {name: text.split(",") for name, text in (("kind", kind), ("scan", scan)) if text}
    for path in (plot, html, markdown):
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise InputError(f"Cannot write {path}; name a file in a folder that is there.")

    from colrank.api import ColRank
    from colrank.cli.compared import print_comparison
    from colrank.cli.progress import Bars
    from colrank.cli.render import echo_json

    default = FieldNames()
    with Bars() as bars:
        found = ColRank.compare(
            list(paths),
            queries,
            qrels,
            grid=values or grid,
            k=k,
            sample=sample,
            model=models or EMBEDDED_MODEL,
            device=device,
            dtype=dtype,
            trust_remote_code=trust_remote_code,
            passage_tokens=passage_tokens,
            overlap=overlap,
            fields=FieldNames(
                id_field or default.id_field,
                title_field or default.title_field,
                text_field or default.text_field,
            ),
            seed=seed,
            max_bytes_per_passage=max_bytes_per_passage,
            max_loss=max_loss,
            max_ms=max_ms,
            baselines=not no_baselines,
            cache=cache,
            apply=apply,
            overwrite=overwrite,
            progress=bars,
            rerank=rerank,
        )
    if as_json:
        echo_json(found.to_json())
    else:
        print_comparison(found)
    if plot is not None:
        found.plot(plot)
    if html is not None:
        found.to_html(html)
    if markdown is not None:
        markdown.write_text(found.to_markdown(), encoding="utf-8")
    for written in (plot, html, markdown, apply):
        if written is not None:
            click.echo(f"Wrote {written}", err=as_json)


def _numbers(name: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"--{name} is {text!r}; give whole numbers with commas between.") from error
