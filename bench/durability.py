"""What an index outlives: kills, power cuts, full disks, readers beside a writer; and what an add costs.

    python bench/durability.py [--kills 300] [--seconds 120] [--readers 4] [--parts kills,power,...]

    kills    writers killed by SIGKILL, at every step that changes the disk and at random instants, during
             build, add, replace, delete and compact: the index must open at the generation before or after,
             whole by `verify`, every document found, and the same update must then succeed
    power    each update recorded, cut after every event, what was not synced lost, torn or kept: likewise
    room     files that may not grow, and steps that say the disk is full: a clear error, and the index before
    readers  one writer and several reading processes: every answer of one generation
    cost     1,000 passages added to 100,000, beside coding these 1,000 (see also `bench/scale.py`)

The harness is `tests/crashes.py`, which the tests run in small.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from judged import write_results
from scale import passages

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import crashes

from colrank import ColRank
from colrank.index import is_index


def lives(top: Path) -> list[tuple[Path, crashes.State]]:
    """The index before each update, and what it holds then."""
    out: list[tuple[Path, crashes.State]] = []
    for until in range(len(crashes.UPDATES)):
        folder, state = top / str(until) / "i", {}
        for update in crashes.UPDATES[:until]:
            update.run(folder)
            state = update.after(state)
        out.append((folder, state))
    return out


def fresh(source: Path, target: Path) -> Path:
    """A copy of an index to be hurt."""
    shutil.rmtree(target, ignore_errors=True)
    if source.exists():
        shutil.copytree(source, target)
    return target


def fault_after(folder: Path, before: crashes.State, after: crashes.State) -> str | None:
    """Why an index is neither at the generation before nor at the one after; None where it is."""
    if not before and not is_index(folder):
        return None
    first = crashes.fault_of(folder, before) if before else "nothing was there"
    second = crashes.fault_of(folder, after)
    return None if None in (first, second) else f"{first}; {second}"


def kills(top: Path, count: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    held = lives(top / "lives")
    faults: list[str] = []
    done = killed = 0
    steps: dict[str, int] = {}
    times: dict[str, float] = {}
    for number, update in enumerate(crashes.UPDATES):
        folder = fresh(held[number][0], top / "i")
        begin = time.perf_counter()
        assert crashes.in_child(crashes.update_until, update, folder, None, top / "told") == 0
        times[update.name] = time.perf_counter() - begin
        steps[update.name] = int((top / "told").read_text())
    plan = [
        (number, stop) for number, update in enumerate(crashes.UPDATES) for stop in range(steps[update.name])
    ]
    plan += [(int(random.integers(len(crashes.UPDATES))), -1) for _ in range(max(0, count - len(plan)))]
    for number, stop in plan:
        update = crashes.UPDATES[number]
        source, before = held[number]
        folder = fresh(source, top / "i")
        if stop >= 0:
            code = crashes.in_child(crashes.update_until, update, folder, stop)
        else:
            code = _killed_after(update, folder, float(random.uniform(0, times[update.name])))
        killed += code == -signal.SIGKILL
        done += 1
        after = update.after(before)
        fault = fault_after(folder, before, after)
        if fault is None and (not is_index(folder) or crashes.fault_of(folder, after) is not None):
            update.run(folder)
            fault = crashes.fault_of(folder, after)
        if fault is not None:
            faults.append(f"{update.name}, step {stop}: {fault}")
    return {"runs": done, "killed": killed, "steps": steps, "faults": faults}


def _killed_after(update: crashes.Update, folder: Path, seconds: float) -> int:
    child = crashes.server().Process(target=crashes.update_until, args=(update, folder, None))
    child.start()
    time.sleep(seconds)
    if child.pid is not None and child.is_alive():
        os.kill(child.pid, signal.SIGKILL)
    child.join()
    return int(child.exitcode or 0)


def power(top: Path) -> dict[str, Any]:
    held = lives(top / "lives")
    faults: list[str] = []
    trees = 0
    for number, update in enumerate(crashes.UPDATES):
        source, before = held[number]
        folder = fresh(source, top / "i")
        tree = crashes.tree_of(folder) if folder.exists() else {}
        assert crashes.in_child(crashes.record_update, update, folder, top / "events") == 0
        disk, seen = crashes.Disk(tree), set()
        for event in map(json.loads, (top / "events").read_text().splitlines()):
            disk.apply(event)
            for found in disk.trees():
                key = hash(tuple(sorted((name, hash(content)) for name, content in found.items())))
                if key in seen:
                    continue
                seen.add(key)
                shutil.rmtree(top / "cut", ignore_errors=True)
                crashes.write_tree(top / "cut", found)
                fault = fault_after(top / "cut", before, update.after(before))
                if fault is not None:
                    faults.append(f"{update.name}, after {event[:2]}: {fault}")
        trees += len(seen)
    return {"trees": trees, "faults": faults}


def room(top: Path) -> dict[str, Any]:
    held = lives(top / "lives")
    faults: list[str] = []
    told = 0
    for number, update in enumerate(crashes.UPDATES):
        source, before = held[number]
        ways = [(crashes.update_with_little_room, most) for most in (0, 100, 600, 2000, 5000)]
        ways += [(crashes.update_with_failing_step, fail) for fail in range(1, 30)]
        for way, value in ways:
            folder = fresh(source, top / "i")
            code = crashes.in_child(way, update, folder, value)
            told += code == 3
            fault = fault_after(folder, before, update.after(before))
            if code not in (0, 3):
                fault = f"exit code {code}"
            if fault is not None:
                faults.append(f"{update.name}, {way.__name__}({value}): {fault}")
    return {"told": told, "faults": faults}


def cost(top: Path) -> dict[str, Any]:
    """Median seconds of an add of 1,000 passages to 100,000, and of coding their vectors."""
    dim = 128
    index = ColRank.create(top / "cost", model=None, bits=2)
    index.add_embeddings([f"p{number}" for number in range(100_000)], passages(100_000, dim))
    adds, codings = [], []
    for turn in range(5):
        more = list(passages(1000, dim, seed=20 + turn))
        begin = time.perf_counter()
        index.add_embeddings([f"m{turn}-{number}" for number in range(1000)], more)
        adds.append(time.perf_counter() - begin)
        stacked = np.concatenate(more)
        begin = time.perf_counter()
        index.snapshot.codec.encode(stacked)
        codings.append(time.perf_counter() - begin)
    return {
        "centroids": index.stats()["codec"]["centroids"],
        "add_seconds": round(float(np.median(adds)), 3),
        "coding_seconds": round(float(np.median(codings)), 3),
        "times_coding": round(float(np.median(adds) / np.median(codings)), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--parts", default="kills,power,room,readers,cost")
    given = parser.parse_args()
    results: dict[str, Any] = {}
    for part in given.parts.split(","):
        with tempfile.TemporaryDirectory() as place:
            top = Path(place)
            begin = time.perf_counter()
            if part == "kills":
                results[part] = kills(top, given.kills)
            elif part == "readers":
                seen = crashes.readers_and_a_writer(top / "i", given.seconds, given.readers)
                results[part] = {"seconds": given.seconds, "searches_and_generations": seen, "faults": []}
            else:
                results[part] = {"power": power, "room": room, "cost": cost}[part](top)
            results[part]["wall_seconds"] = round(time.perf_counter() - begin, 1)
        print(part, {key: value for key, value in results[part].items() if key != "faults"}, flush=True)
        for fault in results[part].get("faults", ())[:10]:
            print("  ", fault, flush=True)
    write_results("durability", results)


if __name__ == "__main__":
    main()
