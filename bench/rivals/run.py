"""colrank and its rivals on the same token vectors, with the same two threads.

    COLRANK_DATA=... python bench/rivals/run.py --work DIR [--collection scifact] [--passages 25000]
        [--only NAME...] [--kernels]

Each rival has a virtual environment of its own under DIR, with pinned versions, and a worker of its own that
builds an index from given vectors and searches it: each query singly, in rounds, for latency; then all at
once; then deeper, for recall@100. Every query token counts 1. What was measured lies under DIR and is not
measured twice with the same settings, versions and vectors (--again does). Exact is brute force in float32
over the very vectors that all are given (float16 on disk).

    --passages N    not the collection's own documents but N passages drawn from their text (`vectors.py`)
    --kernels       MaxSim alone, in memory: 1,000 passages of about 120 tokens, 32 query tokens

The environment that runs this needs colrank with the extras cpu, embedded and eval.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import exact
import vectors
from comparison import Comparison
from contestants import KERNELS, NOT_INSTALLABLE, RIVALS
from jobs import THREADS, Jobs, key, worker_key
from measured import Row
from plot import plot
from table import markdown, report
from venvs import Venvs

sys.path.append(str(Path(__file__).parents[1]))

QUERIES_OF_MANY = (100_000, 100)
"""From so many drawn passages on, only so many queries."""


def main() -> None:
    options = read_options()
    # Else a worker would go on alone when this is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Ended."))
    work: Path = options.work.resolve()
    name = options.collection if options.passages is None else f"passages-{options.passages}"
    many = options.passages is not None and options.passages >= QUERIES_OF_MANY[0]
    folder = work / "vectors" / (name if options.noise == vectors.NOISE else f"{name}-{options.noise}")
    asked = QUERIES_OF_MANY[1] if many else None
    vectors.make(folder, options.collection, options.passages, options.noise, asked)
    best = exact.exact(folder)[: options.queries]
    about = json.loads((folder / "about.json").read_text())
    print(f"{name}: {about['passages']:,} passages, {about['tokens']:,} tokens, {len(best)} queries")
    venvs = Venvs(work)
    jobs = Jobs(work, venvs, options.again)
    results = options.results or Path(__file__).parents[1] / "results"
    if options.kernels:
        kernels(jobs, venvs, folder, work, results)
        return
    comparison = Comparison(
        jobs,
        work,
        folder,
        about,
        best,
        {
            "queries": len(best),
            "timed": options.timed,
            "rounds": options.rounds,
            "seconds": options.seconds,
        },
        options.searches,
        options.again,
        options.keep,
    )
    rows: list[Row] = []
    installed: dict[str, list[str]] = {}
    for rival in RIVALS:
        if options.only and rival.name not in options.only:
            continue
        print(f"{rival.name}: {', '.join(venvs.pins(rival))}", flush=True)
        try:
            venvs.python(rival)
        except subprocess.CalledProcessError as error:
            comparison.failures[rival.name] = f"cannot be installed: {error}"
            continue
        installed[rival.name] = venvs.installed(rival)
        if options.builds:
            rival = replace(rival, builds=rival.builds[: options.builds])
        for found in comparison.measured(rival):
            rows.append(found)
            print(f"  {line(found)}", flush=True)
    print(report(rows, comparison.failures))
    if rows:
        keep(results, name, about, rows, comparison.failures, installed)
        plot(rows, work / f"rivals-{name}.png", f"{name}: {about['passages']:,} passages")
        print(f"Drew {work / f'rivals-{name}.png'}")


def line(found: Row) -> str:
    """A row in one line, for whoever waits."""
    return (
        f"{found['build']} {found['search']}: recall@10 {found['recall@10']:.3f}, "
        f"{found['median_ms']:g} ms, {found['bytes_per_token']:g} bytes a token"
    )


def keep(
    results: Path,
    name: str,
    about: dict[str, Any],
    rows: list[Row],
    failures: dict[str, str],
    installed: dict[str, list[str]],
) -> None:
    """Write the figures, with the machine, for the repository."""
    from judged import machine

    results.mkdir(parents=True, exist_ok=True)
    path = results / f"rivals-{name}.json"
    content = {
        "machine": machine(),
        "worker_threads": THREADS,
        "vectors": about,
        "rows": rows,
        "failures": failures,
        "not_installable": dict(NOT_INSTALLABLE),
        "installed": installed,
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print(f"Wrote {path}")


def kernels(jobs: Jobs, venvs: Venvs, folder: Path, work: Path, results: Path) -> None:
    """MaxSim alone; see `workers/kernels.py`."""
    from judged import machine

    venvs.python(KERNELS)
    job = {"step": "kernels", "vectors": str(folder), "index": str(work / "indexes" / "kernels")}
    kept = (
        work / "results" / "kernels" / f"{key([jobs.pins(KERNELS), worker_key(KERNELS), str(folder)])}.json"
    )
    found = jobs.run(KERNELS, job, kept)
    print(json.dumps(found["floor"], indent=1))
    print(markdown(found["rows"], {name: name.replace("_", " ") for name in found["rows"][0]}))
    content = {"machine": machine(), **{name: found[name] for name in ("shape", "floor", "rows", "versions")}}
    results.mkdir(parents=True, exist_ok=True)
    (results / "rivals-kernels.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"Wrote {results / 'rivals-kernels.json'}")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="Folder of all that is made on the way.")
    parser.add_argument("--collection", default="scifact")
    parser.add_argument("--passages", type=int, help="Draw so many from the collection's text.")
    parser.add_argument(
        "--noise", type=float, default=vectors.NOISE, help="Length of what is added to vectors."
    )
    parser.add_argument("--only", nargs="+", choices=[rival.name for rival in RIVALS], help="These rivals.")
    parser.add_argument("--queries", type=int, help="The first so many queries; all by default.")
    parser.add_argument("--searches", type=int, help="The first so many settings of each index, for a trial.")
    parser.add_argument("--builds", type=int, help="The first so many indexes of each rival.")
    parser.add_argument("--timed", type=int, default=100, help="Queries of the rounds.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=120, help="No round begins after so many.")
    parser.add_argument("--again", action="store_true", help="Measure what was measured before.")
    parser.add_argument("--keep", action="store_true", help="Keep the indexes.")
    parser.add_argument("--kernels", action="store_true", help="MaxSim alone.")
    parser.add_argument("--results", type=Path, help="Folder of the figures; bench/results by default.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
