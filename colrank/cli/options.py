"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

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


def model_options(command: Command) -> Command:
    """How the model is found and run."""
    for option in reversed(
        (
            click.option(
                "--model",
                help="Late-interaction model: a folder or a name on the hub. "
                "[default: the embedded one, or the index's]",
            ),
            click.option("--device", help="cpu, cuda, cuda:1 or mps. [default: the best there is]"),
            click.option(
                "--dtype",
                type=click.Choice(["float32", "float16", "bfloat16"]),
                default="float32",
                show_default=True,
                help="Precision of the model.",
            ),
            click.option(
                "--trust-remote-code",
                is_flag=True,
                help="Let the model's checkpoint run code that it brings.",
            ),
        )
    ):
        command = option(command)
    return command


def search_options(command: Command) -> Command:
    """How candidates are found."""
    for option in reversed(
        (
            click.option(
                "--scan",
                type=click.Choice(["auto", "always", "never"]),
                default="auto",
                show_default=True,
                help="Score every passage, or go through the prefilter; auto does what is faster.",
            ),
            click.option(
                "--nprobe", type=int, help="Centroids looked up for each query token. [default: by k]"
            ),
            click.option("--shortlist", type=int, help="Passages scored from their codes. [default: by k]"),
            click.option(
                "--prune",
                type=float,
                help="Leave centroids less similar than this to every query token out of the centroid "
                "scores; -1 leaves none out. [default: -1]",
            ),
        )
    ):
        command = option(command)
    return command


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
