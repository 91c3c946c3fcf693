"""Damaged indexes: nothing crashes, only colrank's own errors come of it, and `verify` finds them all.

    python bench/damage.py [--count 2000] [--seed 0]

A small index of three segments with deletions, codes and pooling is copied and hurt:

    flip      one bit of one file
    cut       a file that ends too early
    empty     a file of no bytes
    remove    a file that is gone
    swap      two files of one name, of different segments
    manifest  a number in the manifest changed, its checksum made again
    signed    one bit of one file, with checksums and manifest made again: only what the tables contradict can
              be found; it must not crash

Then it is opened, searched by a full scan and through the prefilter, explained, filtered, counted and
verified, in child processes that a crash would end.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from judged import write_results

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import crashes

from colrank import ColRank
from colrank.errors import ColRankError
from colrank.index import verify
from colrank.index.codec_files import checksums
from colrank.index.generations import read_manifest

KINDS = ("flip", "cut", "empty", "remove", "swap", "manifest", "signed")
_AT_ONCE = 50
_SETTINGS = ("format_version", "training", "knobs", "seed", "passage_tokens", "overlap", "pool")


def make(folder: Path) -> None:
    """An index with all that an index can have."""
    vectors = crashes.vectors_of
    index = ColRank.create(folder, model=None, bits=2, pool=2, centroids=8)
    index.add_embeddings(
        [f"a{n}" for n in range(20)],
        [vectors(n) for n in range(20)],
        metadata=[{"n": n, "t": ["x"]} for n in range(20)],
    )
    index.add_embeddings([f"b{n}" for n in range(12)], [vectors(50 + n, 5) for n in range(12)])
    index.add_embeddings(["c", "a1"], [vectors(90), vectors(91)], texts=["c", "año"])
    index.delete(["a2", "b3"])


def sign(body: dict[str, Any], path: Path) -> None:
    """Write a manifest again, with its checksum."""
    body.pop("checksum", None)
    body["checksum"] = xxhash.xxh3_128_hexdigest(json.dumps(body, sort_keys=True).encode())
    path.write_text(json.dumps(body))


def hurt(folder: Path, kind: str, random: np.random.Generator) -> str:
    """Damage an index; what was done."""
    manifest = read_manifest(folder)
    path = folder / f"manifest-{manifest.generation:08d}.json"
    files = [f"{part}/{name}" for part, held in manifest.parts.items() for name in held]
    name = files[int(random.integers(len(files)))]
    file = folder / name
    content = bytearray(file.read_bytes())
    if kind in ("flip", "signed"):
        content[int(random.integers(len(content)))] ^= 1 << int(random.integers(8))
        file.write_bytes(content)
    elif kind == "cut":
        file.write_bytes(content[: int(random.integers(len(content)))])
    elif kind == "empty":
        file.write_bytes(b"")
    elif kind == "remove":
        file.unlink()
    elif kind == "swap":
        first, second = manifest.segments[0].name, manifest.segments[1].name
        # Token frequencies of given vectors are the same for all: there are none.
        names = sorted(set(manifest.segments[0].files) - {"frequencies.arrow"})
        name = names[int(random.integers(len(names)))]
        one, two = folder / first / name, folder / second / name
        held = one.read_bytes()
        one.write_bytes(two.read_bytes())
        two.write_bytes(held)
    elif kind == "manifest":
        body = json.loads(path.read_text())
        places = list(_numbers(body, ()))
        *way, last = places[int(random.integers(len(places)))]
        inside = body
        for step in way:
            inside = inside[step]
        change = (1, -1, 1 << 40, -5)[int(random.integers(4))]
        inside[last] = inside[last] + change
        sign(body, path)
        name = "/".join(map(str, (*way, last)))
    if kind == "signed":
        body = json.loads(path.read_text())
        held = [*body["segments"], body["codec"]]
        for part in [*held, *(entry["deletions"] for entry in body["segments"] if entry["deletions"])]:
            part["files"] = {
                each: {"bytes": size, "xxh3": told}
                for each, (size, told) in checksums(folder / part["name"]).items()
            }
        sign(body, path)
    return f"{kind} {name}"


def _numbers(body: Any, way: tuple[Any, ...]) -> Any:
    """Where the counts of a manifest are; settings that only people or a later build read are left alone."""
    if isinstance(body, dict):
        for key, value in body.items():
            if key not in (
                "format_version",
                "training",
                "knobs",
                "seed",
                "passage_tokens",
                "overlap",
                "pool",
            ):
                yield from _numbers(value, (*way, key))
    elif isinstance(body, list):
        for place, value in enumerate(body):
            yield from _numbers(value, (*way, place))
    elif isinstance(body, int) and not isinstance(body, bool) and way != ("centroids",) and way != ("bits",):
        yield way


def use(folder: Path) -> None:
    """All that a reader does; only errors of colrank may come of it."""
    with suppress(ColRankError):
        opened = ColRank.open(folder)
        opened.stats()
        for scan in ("always", "never"):
            with suppress(ColRankError):
                for hit in opened.search(crashes.vectors_of(1), 5, scan=scan):
                    opened.explain(crashes.vectors_of(2), hit)
        with suppress(ColRankError):
            opened.search(crashes.vectors_of(3), filter="n > 2 or list_contains(t, 'x')")
        with suppress(ColRankError):
            opened.search(crashes.vectors_of(3), ids=["a5", "b7"])


def batch(whole: Path, first: int, count: int, seed: int, told: Path) -> None:
    """Hurt and use some copies, in this process; a line for each, written before and after."""
    with told.open("w") as log:
        for number in range(first, first + count):
            folder = told.with_suffix("")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(whole, folder)
            what = hurt(folder, KINDS[number % len(KINDS)], np.random.default_rng([seed, number]))
            print(json.dumps([number, what]), file=log, flush=True)
            fault = ""
            try:
                use(folder)
                found = bool(verify(folder).faults)
            except Exception as error:
                fault, found = f"{type(error).__name__}: {error}", False
            print(json.dumps([number, what, found, fault]), file=log, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    damaged: Counter[str] = Counter()
    found: Counter[str] = Counter()
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        top = Path(place)
        make(top / "whole")
        for first in range(0, given.count, _AT_ONCE):
            told = top / "hurt.log"
            size = min(_AT_ONCE, given.count - first)
            code = crashes.in_child(batch, top / "whole", first, size, given.seed, told)
            lines = [json.loads(line) for line in told.read_text().splitlines()]
            if code != 0:
                faults.append(f"exit code {code} after {lines[-1]}")
            for line in lines:
                if len(line) == 2:
                    continue
                number, what, seen, fault = line
                kind = what.split()[0]
                damaged[kind] += 1
                found[kind] += seen
                if fault:
                    faults.append(f"{number} {what}: {fault}")
                elif not seen and kind != "signed":
                    faults.append(f"{number} {what}: not found by verify")
    for kind in KINDS:
        print(f"{kind:<9} {damaged[kind]:5,} damaged, {found[kind]:5,} found by verify")
    for fault in faults[:20]:
        print("  ", fault)
    write_results("damage", {"damaged": dict(damaged), "found_by_verify": dict(found), "faults": len(faults)})


if __name__ == "__main__":
    main()
