"""`colrank delete`: documents out of an index."""

from __future__ import annotations

from pathlib import Path

import click

from colrank.cli.options import index_option, json_option, model_options

_SHOWN = 10


@click.command("delete", short_help="Delete documents from an index.")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--where", metavar="EXPR", help="Delete the documents for which this is true, as --filter of search."
)
@click.option("--path-prefix", metavar="PATH", help="Delete the documents of this file or folder.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@index_option
@model_options
@json_option
def command(
    ids: tuple[str, ...],
    where: str | None,
    path_prefix: str | None,
    dry_run: bool,
    index: Path,
    model: str | None,
    device: str | None,
    dtype: str,
    trust_remote_code: bool,
    as_json: bool,
) -> None:
    """Delete documents by id, by a filter, or by the file or folder that they came from.

    They are found no more at once; their bytes go when their segment is compacted.

    \b
    colrank delete terms.md old/2019.md
    colrank delete --where "lang = 'es' and year < 2020"
    """
    from colrank.api import ColRank
    from colrank.cli.render import echo_json, one_line

    opened = ColRank.open(index, model=model, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    deleted = opened.delete(list(ids) or None, where=where, path_prefix=path_prefix, dry_run=dry_run)
    if as_json:
        echo_json({"deleted": deleted, "dry_run": dry_run, "documents": len(opened)})
        return
    named = ", ".join(one_line(name) for name in deleted[:_SHOWN])
    more = f", and {len(deleted) - _SHOWN:,} more" if len(deleted) > _SHOWN else ""
    done = "Would delete" if dry_run else "Deleted"
    click.echo(f"{done} {len(deleted):,} documents{': ' if named else ''}{named}{more}.")
    if not dry_run:
        click.echo(f"{index} holds {len(opened):,} documents now.")
