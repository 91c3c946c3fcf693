"""`colrank add`: more folders and files into an index."""

from __future__ import annotations

from pathlib import Path

import click

from colrank.cli.options import PATH, field_names, field_options, index_option, model_options


@click.command("add", short_help="Add folders and files to an index.")
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="PATH...")
@index_option
@model_options
@field_options
@click.option("--strict", is_flag=True, help="Any document that cannot be read is an error.")
def command(
    paths: tuple[Path, ...],
    index: Path,
    model: str | None,
    device: str | None,
    dtype: str,
    trust_remote_code: bool,
    id_field: tuple[str, ...],
    title_field: tuple[str, ...],
    text_field: tuple[str, ...],
    strict: bool,
) -> None:
    """Add folders and files to an index that is there; nothing is deleted.

    The same id replaces the older document; one that comes again as it was is not encoded again.
    """
    from colrank.api import ColRank
    from colrank.cli.progress import Bars, kept_when_stopped
    from colrank.cli.render import print_update

    opened = ColRank.open(index, model=model, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    with Bars() as bars, kept_when_stopped():
        report = opened.add_files(
            paths, fields=field_names(id_field, title_field, text_field), strict=strict, progress=bars
        )
    print_update(index, report)
