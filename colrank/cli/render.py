"""Text for people and JSON for programs."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from colrank.language import UNKNOWN
from colrank.lost import Trace
from colrank.tune import Tuning
from colrank.types import BuildReport, Explanation, human_bytes

_ROOMY = 104
_LONGEST_MATCH = 18


def echo_json(record: Mapping[str, Any]) -> None:
    """Print a record as one line of JSON, in characters that the output can carry."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    click.echo(json.dumps(record, ensure_ascii=not utf8))


def plain_console() -> Console:
    """A console that shows text as it is."""
    # Text may hold brackets, which are no markup.
    return Console(highlight=False, markup=False, emoji=False)


def one_line(text: str) -> str:
    """The text on one line; control characters, which could steer the terminal, become spaces."""
    return "".join(
        " " if character.isspace() or unicodedata.category(character) == "Cc" else character
        for character in text
    )


def print_build(index: Path, report: BuildReport, stats: Mapping[str, Any], notes: Sequence[str]) -> None:
    """The closing summary of a build: what came of it, and what went wrong on the way."""
    console = plain_console()
    for note in (*notes, *report.warnings):
        console.print(Text(f"Warning: {one_line(note)}", style="yellow"), soft_wrap=True)
    _print_resumed(console, report)
    rate = report.tokens / report.seconds if report.seconds else 0.0
    console.print(
        f"Indexed {report.documents:,} documents ({report.passages:,} passages, {report.tokens:,} tokens) "
        f"into {index}: {human_bytes(report.bytes)}, {stats['bytes_per_token']:g} bytes a token, "
        f"in {report.seconds:.1f} s ({rate:,.0f} tokens/s).",
        soft_wrap=True,
    )
    console.print(
        f"Model {stats['model']}, passages of at most {stats['passage_tokens']} tokens, "
        f"token weights {'on' if stats['weighted'] else 'off'}, languages {_languages(stats)}.",
        soft_wrap=True,
    )
    error = stats["codec"] and stats["codec"]["squared_error"]
    lost = f", squared error {error:.4f} on unseen tokens" if error else ""
    console.print(f"Stored as {_storage(stats)}{_pooled(stats)}{lost}.", soft_wrap=True)


def _print_resumed(console: Console, report: BuildReport) -> None:
    if report.resumed:
        console.print(f"{report.resumed:,} passages had been encoded by a build that was stopped.")


def print_update(index: Path, report: BuildReport) -> None:
    """What an update of an index changed."""
    console = plain_console()
    for note in report.warnings:
        console.print(Text(f"Warning: {one_line(note)}", style="yellow"), soft_wrap=True)
    _print_resumed(console, report)
    console.print(
        f"{report.added:,} added, {report.replaced:,} replaced, {report.deleted:,} deleted, "
        f"{report.unchanged:,} unchanged, in {report.seconds:.1f} s.",
        soft_wrap=True,
    )
    console.print(
        f"{index} holds {report.documents:,} documents ({report.passages:,} passages, {report.tokens:,} "
        f"tokens), {human_bytes(report.bytes)}.",
        soft_wrap=True,
    )


def _languages(stats: Mapping[str, Any]) -> str:
    total = sum(stats["language_tokens"].values()) or 1
    shares = sorted(stats["language_tokens"].items(), key=lambda item: (-item[1], item[0]))
    named = [
        f"{'unknown' if language == UNKNOWN else language} {100 * tokens / total:.0f}%"
        for language, tokens in shares[:3]
    ]
    return ", ".join(named) + (f" and {len(shares) - 3} more" if len(shares) > 3 else "")


def _longest(stats: Mapping[str, Any]) -> str:
    return f" of at most {stats['passage_tokens']} tokens" if stats["passage_tokens"] else ""


def _pooled(stats: Mapping[str, Any]) -> str:
    if stats["pool"] == 1:
        return ""
    return f", pooled by {stats['pool']} from {stats['unpooled_tokens']:,}"


def _storage(stats: Mapping[str, Any]) -> str:
    codec = stats["codec"]
    if codec is None or stats["bits"] >= 16:
        return f"float{stats['bits']}" + (f" beside {codec['centroids']:,} centroids" if codec else "")
    plural = "" if stats["bits"] == 1 else "s"
    return f"{codec['kind']} codes of {stats['bits']} bit{plural} over {codec['centroids']:,} centroids"


def _codec_rows(stats: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the codec loses, on tokens that its training did not see and on those of this build."""
    codec = stats["codec"]
    if codec is None or stats["bits"] >= 16:
        return []
    unseen = "not measured: training saw every token"
    if codec["squared_error"] is not None:
        unseen = (
            f"{codec['squared_error']:.4f} squared, cosine {codec['cosine']:.4f} "
            f"({codec['held_out']:,} tokens unseen in training)"
        )
    rows = [("Codec error", unseen)]
    if stats["tokens"] > codec["tokens"]:
        rows.append(("  trained at", f"{codec['tokens']:,} tokens"))
    measured = [segment for segment in stats["segments"] if segment["squared_error"] is not None]
    if len(measured) > 1 or any(segment["drifted"] for segment in measured):
        for segment in measured:
            drifted = ", drifted: compact --retrain trains anew" if segment["drifted"] else ""
            rows.append((f"  {segment['name']}", f"{segment['squared_error']:.4f} squared{drifted}"))
    return rows


def _segments(stats: Mapping[str, Any]) -> str:
    deleted = sum(segment["deleted"] for segment in stats["segments"])
    gone = f", {deleted:,} deleted documents in them" if deleted else ""
    return f"{len(stats['segments']):,}{gone}"


def _search_way(stats: Mapping[str, Any]) -> str:
    search = stats["search"]
    if search["scan"]:
        return "every passage is scored"
    kept = ", stored by tune" if search["stored"] else ", the defaults for k = 10"
    return (
        f"prefilter: nprobe {search['nprobe']}, "
        f"shortlist {search['shortlist']}, prune {search['prune']:g}{kept}"
    )


def print_stats(stats: Mapping[str, Any]) -> None:
    """What an index holds and costs, as a table."""
    sizes = stats["bytes"]
    rows = [
        ("Index", f"{stats['path']} (generation {stats['generation']})"),
        ("Documents", f"{stats['documents']:,}"),
        ("Segments", _segments(stats)),
        ("Passages", f"{stats['passages']:,}{_longest(stats)}"),
        ("Tokens", f"{stats['tokens']:,} x {stats['dim']} dimensions{_pooled(stats)}"),
        ("Stored as", _storage(stats)),
        *_codec_rows(stats),
        ("Search", _search_way(stats)),
        ("Bytes", human_bytes(sizes["total"])),
        ("  vectors", f"{human_bytes(sizes['vectors'])} ({stats['vector_bytes_per_token']:g} a token)"),
        *[
            (f"  {part}", human_bytes(sizes[part]))
            for part in ("centroids", "postings")
            if stats["codec"] is not None
        ],
        ("  text", human_bytes(sizes["text"])),
        ("  other", human_bytes(sizes["other"])),
        ("Bytes a token", f"{stats['bytes_per_token']:g}"),
        ("Model", stats["model"] or "none (given vectors)"),
        ("Token weights", f"{'on' if stats['weighted'] else 'off'} ({stats['token_weights']})"),
        ("Languages", _languages(stats) or "unknown"),
        ("Kernels", ", ".join(stats["kernels"])),
    ]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    plain_console().print(table)


def print_explanation(explanation: Explanation) -> None:
    """A table of query tokens and what each found."""
    console = plain_console()
    head = Text(one_line(explanation.id), style="bold")
    head.append(f"  score {explanation.score:.4f}", style="green")
    if explanation.title:
        head.append(f"  {one_line(explanation.title)}", style="italic")
    console.print(head, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    # Widths of their own, so that a narrow terminal takes from the last column only.
    for name in ("query token", "best token", "where"):
        table.add_column(name, no_wrap=True, min_width=12)
    for name in ("similarity", "weight", "adds"):
        table.add_column(name, justify="right", no_wrap=True, min_width=max(8, len(name)))
    roomy = console.width >= _ROOMY
    if roomy:
        table.add_column("in the text", no_wrap=True, overflow="ellipsis")
    for match in explanation.tokens:
        # A pooled token has several places: the first one is shown, and how many more there are.
        more = f" +{len(match.spans) - 1}" if len(match.spans) > 1 else ""
        places = f"{match.start}-{match.end}{more}" if match.spans else ""
        where = f"title {places}" if match.in_title else places
        source = explanation.title if match.in_title else explanation.text
        near = "" if match.start < 0 else one_line(source[max(0, match.start - 15) : match.end + 15])
        table.add_row(
            Text(match.token),
            Text(
                match.match if len(match.match) <= _LONGEST_MATCH else f"{match.match[: _LONGEST_MATCH - 1]}…"
            ),
            where,
            f"{match.similarity:.4f}",
            f"{match.weight:.3f}",
            f"{match.contribution:.4f}",
            *([Text(near, style="dim")] if roomy else []),
        )
    console.print(table)


def print_tuning(tuning: Tuning, *, stored: bool) -> None:
    """The settings that were tried, the chosen one, and what it means."""
    console = plain_console()
    table = Table(box=None, pad_edge=False)
    for name in ("nprobe", "shortlist", "prune", f"recall@{tuning.k}", "ms a query", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for trial in (tuning.scan, *tuning.trials):
        scanned = trial is tuning.scan
        values = ("every", "passage", "") if scanned else (trial.nprobe, trial.shortlist, f"{trial.prune:g}")
        chosen = "chosen" if trial is tuning.best else ""
        table.add_row(*map(str, values), f"{trial.recall:.4f}", f"{trial.milliseconds:.1f}", chosen)
    console.print(table)
    if tuning.best is None:
        console.print(f"No settings reached a recall of {tuning.wanted:g}; search with --scan always.")
        return
    if tuning.drawn:
        console.print(
            f"Measured on {tuning.queries} queries drawn from the passages, which find themselves easily; "
            "give real ones with --queries for a figure to rely on.",
            soft_wrap=True,
        )
    best = tuning.best
    ratio = tuning.scan.milliseconds / best.milliseconds if best.milliseconds else 0.0
    spelled = f"--nprobe {best.nprobe} --shortlist {best.shortlist} --prune {best.prune:g}"
    how = "Stored in the index" if stored else f"Use {spelled}, or keep them with --store"
    console.print(f"{how}: {ratio:.1f} times as fast as scoring every passage.", soft_wrap=True)


def print_trace(found: Trace) -> None:
    """Where a known passage was lost, and its rank after each stage before that."""
    console = plain_console()
    head = Text(one_line(found.id), style="bold")
    if found.lost:
        head.append(f"  {found.lost} ({found.stage})", style="red")
    console.print(head, soft_wrap=True)
    console.print(one_line(found.sentence), soft_wrap=True)
    for stage, rank in found.ranks.items():
        console.print(f"  {stage}: {rank}")
