"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from colrank.config import FieldNames

Command = TypeVar("Command", bound=Callable[..., Any])


class _PathType(click.Path):
    """A path that is not empty: an unset shell variable must not mean the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty.", param, ctx)
        return super().convert(value, param, ctx)


PATH = _PathType()


def stacked(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """One decorator that gives a command several options, in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def k_option(help: str) -> Callable[[Command], Command]:
    """`-k`: how many hits."""
    return click.option("-k", "--k", "k", type=int, default=10, show_default=True, help=help)


def by_option(help: str) -> Callable[[Command], Command]:
    """`--by`: what is counted."""
    return click.option(
        "--by", type=click.Choice(["passage", "document"]), default="passage", show_default=True, help=help
    )


def dtype_option(name: str, help: str) -> Callable[[Command], Command]:
    """Precision of a model."""
    return click.option(
        name,
        type=click.Choice(["float32", "float16", "bfloat16"]),
        default="float32",
        show_default=True,
        help=help,
    )


index_option = click.option(
    "--index",
    "index",
    type=PATH,
    default=Path("colrank.index"),
    envvar="COLRANK_INDEX",
    show_default=True,
    show_envvar=True,
    help="Folder of the index.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for programs.")


model_options = stacked(
    click.option(
        "--model",
        help="Late-interaction model: a folder or a name on the hub. "
        "[default: the embedded one, or the index's]",
    ),
    click.option("--device", help="cpu, cuda, cuda:1 or mps. [default: the best there is]"),
    dtype_option("--dtype", "Precision of the model."),
    click.option(
        "--trust-remote-code",
        is_flag=True,
        help="Let the model's checkpoint run code that it brings.",
    ),
)
"""How the model is found and run."""


search_options = stacked(
    click.option(
        "--scan",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Score every passage, or go through the prefilter; auto does what is faster.",
    ),
    click.option("--nprobe", type=int, help="Centroids looked up for each query token. [default: by k]"),
    click.option("--shortlist", type=int, help="Passages scored from their codes. [default: by k]"),
    click.option(
        "--prune",
        type=float,
        help="Leave centroids less similar than this to every query token out of the centroid "
        "scores; -1 leaves none out. [default: -1]",
    ),
    click.option(
        "--hybrid",
        is_flag=True,
        help="Fuse MaxSim with BM25; the index was made with --hybrid too.",
    ),
    click.option(
        "--retrieve",
        type=click.Choice(["maxsim", "hybrid", "bm25"]),
        default="maxsim",
        show_default=True,
        help="What finds candidates; bm25 alone finds them by words, and MaxSim ranks them.",
    ),
    click.option(
        "--fusion",
        type=click.Choice(["rrf", "score"]),
        default="rrf",
        show_default=True,
        help="For --hybrid: by reciprocal rank, or by scores moved to [0, 1].",
    ),
    click.option(
        "--bm25-weight",
        type=float,
        default=1.0,
        show_default=True,
        help="For --hybrid: weight of BM25 where MaxSim has 1.",
    ),
    click.option(
        "--branch",
        type=int,
        default=50,
        show_default=True,
        help="For --hybrid: hits that each of the two brings.",
    ),
)
"""How candidates are found."""


filter_options = stacked(
    click.option(
        "--filter",
        metavar="EXPR",
        help="Search only documents for which this boolean SQL expression over metadata, id, title, source "
        "and language is true.",
    ),
    click.option("--path-prefix", metavar="PATH", help="Search only documents of this file or folder."),
    click.option("--ids", metavar="ID[,ID...]", help="Search only these documents."),
)
"""What a search is limited to."""


def field_names(
    id_field: tuple[str, ...], title_field: tuple[str, ...], text_field: tuple[str, ...]
) -> FieldNames:
    """The fields that were named, the default where none was."""
    default = FieldNames()
    return FieldNames(
        id_field or default.id_field, title_field or default.title_field, text_field or default.text_field
    )


def field_options(command: Command) -> Command:
    """Which fields of a record hold what."""
    for name, default in (("text", "text"), ("title", "title"), ("id", "_id, id")):
        command = click.option(
            f"--{name}-field",
            multiple=True,
            metavar="NAME",
            help=f"Field of the {name}; given several times, the first that is there. [default: {default}]",
        )(command)
    return command
