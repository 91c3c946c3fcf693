"""Options of the stages after the search; `colrank.config.CascadeConfig` says more of each."""

from __future__ import annotations

import click

from colrank.cli.options import dtype_option, stacked

candidates_option = click.option(
    "--candidates",
    type=int,
    default=50,
    show_default=True,
    help="Hits that the stages after the search look at.",
)

_reranker_options = stacked(
    click.option("--rerank-url", metavar="URL", help="Where the reranker's service is."),
    click.option(
        "--rerank-max-length",
        type=int,
        help="Longest pair of query and text, in the reranker's tokens. [default: its own limit]",
    ),
    click.option(
        "--rerank-windows",
        is_flag=True,
        help="Score overlapping windows of texts that are too long, and take the best.",
    ),
    click.option(
        "--rerank-instruction",
        metavar="TEXT",
        help="An instruction in words for a language model, such as 'prefer documents after 2024'.",
    ),
    click.option("--rerank-device", metavar="DEVICE", help="As --device, for the reranker."),
    dtype_option("--rerank-dtype", "As --dtype, for the reranker."),
    click.option(
        "--rerank-backend",
        type=click.Choice(["torch", "onnx", "openvino"]),
        default="torch",
        show_default=True,
        help="What runs a cross-encoder.",
    ),
    click.option(
        "--rerank-timeout",
        type=float,
        default=30.0,
        show_default=True,
        help="Seconds that a request to a service may take.",
    ),
    click.option(
        "--rerank-retries",
        type=int,
        default=3,
        show_default=True,
        help="How often a failed request is sent again.",
    ),
    click.option(
        "--on-rerank-error",
        type=click.Choice(["fall-back", "fail"]),
        default="fall-back",
        show_default=True,
        help="Keep the order of the search and warn, or end with exit code 4.",
    ),
    click.option(
        "--blend",
        type=float,
        default=0.0,
        show_default=True,
        help="Share of the earlier score in the order after reranking, from 0 to 1.",
    ),
)
"""How a reranker is reached and what it reads."""

stage_options = stacked(
    click.option(
        "--rerank",
        metavar="NAME",
        help="Let a reranker read the candidates with the query: hf:MODEL, cohere:MODEL, "
        "voyage:MODEL, jina:MODEL, mixedbread:MODEL, tei:URL, vllm:URL, infinity:URL, "
        "llamacpp:URL, ollama:MODEL, openai:MODEL, colbert:MODEL or exact.",
    ),
    _reranker_options,
    click.option(
        "--judge",
        type=float,
        metavar="FLOOR",
        help="Drop hits whose score is below this, such as 0.75; exit code 3 when none is left.",
    ),
    click.option(
        "--on-judge-error",
        type=click.Choice(["return-unjudged", "fail"]),
        default="return-unjudged",
        show_default=True,
        help="When the reranker failed: return the hits and say so, or end with exit code 4.",
    ),
    click.option(
        "--fallback",
        metavar="TEXT",
        help="What to say instead of hits. [default: by the texts' language]",
    ),
    click.option(
        "--mmr",
        type=float,
        metavar="LAMBDA",
        help="Choose the last hits by relevance (1) against difference (0); 0.7 is where to start.",
    ),
    click.option(
        "--mmr-exact",
        is_flag=True,
        help="Compare all vectors of two passages, not a reduction of them.",
    ),
    click.option(
        "--max-per-document",
        type=int,
        help="Most passages of one document. [default: 2 under --mmr, else no limit]",
    ),
    click.option("--dedupe", is_flag=True, help="Leave out hits whose text repeats that of a better one."),
)
"""Reranker, judge and MMR."""
