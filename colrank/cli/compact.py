"""`colrank compact`: the segments of an index as one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from colrank.cli.options import index_option, json_option


@click.command("compact", short_help="Merge the segments of an index and drop what was deleted.")
@click.option("--retrain", is_flag=True, help="Train a new codec, from what the present one decodes to.")
@click.option("--hybrid", is_flag=True, help="Keep the words of passages from now on, for BM25.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@index_option
@json_option
def command(retrain: bool, hybrid: bool, dry_run: bool, index: Path, as_json: bool) -> None:
    """Write all segments of an index again as one, without the documents that were deleted.

    Adding does this by itself where eight segments are of like size, and for a segment of which more than a
    fifth is deleted.
    """
    from colrank.api import ColRank
    from colrank.cli.progress import Bars
    from colrank.cli.render import echo_json
    from colrank.types import human_bytes

    opened = ColRank.open(index)
    with Bars() as bars:
        plan = opened.compact(retrain=retrain, hybrid=hybrid, dry_run=dry_run, progress=bars)
    if as_json:
        echo_json({"dry_run": dry_run, **(asdict(plan) if plan else {"segments": []})})
        return
    if plan is None:
        click.echo(f"{index} is one segment without deleted documents; there is nothing to do.")
        return
    done = "Would write" if dry_run else "Wrote"
    trained = " by a new codec" if plan.retrain else ""
    trained += " with their words" if plan.hybrid else ""
    click.echo(
        f"{done} {len(plan.segments):,} segments ({human_bytes(plan.bytes)}) as one{trained}: "
        f"{plan.documents:,} documents, {plan.tokens:,} tokens; {plan.deleted:,} deleted documents dropped."
    )
    if not dry_run:
        click.echo(f"{index} takes {human_bytes(opened.stats()['bytes']['total'])} now.")
