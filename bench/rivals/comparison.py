"""One collection: each rival builds its indexes and is measured searching them; then an index goes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from contestants import Rival
from jobs import JobFailed, Jobs, key, worker_key
from measured import Row, row


@dataclass
class Comparison:
    """Everything that is the same for all rivals.

    Attributes:
        work: folder of results and indexes.
        vectors: folder of the shared vectors.
        about: what these are.
        exact: numbers of the best passages, int64 `[queries, 100]`.
        asked: how many queries are asked and timed, and for how long.
        searches: the first so many settings of each index; None is all.
        keep: leave the indexes where they are.
        failures: what went wrong, by rival and settings.
    """

    jobs: Jobs
    work: Path
    vectors: Path
    about: dict[str, Any]
    exact: np.ndarray
    asked: dict[str, Any]
    searches: int | None = None
    again: bool = False
    keep: bool = False
    failures: dict[str, str] = field(default_factory=dict)

    def measured(self, rival: Rival) -> Iterator[Row]:
        """A row for each setting of a rival, as it comes."""
        if rival.most_tokens and self.about["tokens"] > rival.most_tokens:
            self.failures[rival.name] = f"left out above {rival.most_tokens:,} tokens, for want of memory"
            return
        for build, every in rival.builds:
            yield from self._searched(rival, build, every[: self.searches])

    def _searched(self, rival: Rival, build: Any, searches: tuple[Any, ...]) -> Iterator[Row]:
        named = {"vectors": self.about["digest"], "pins": self.jobs.pins(rival), "build": build}
        named["worker"] = worker_key(rival)
        kept = self.work / "results" / self.vectors.name / rival.name
        index = self.work / "indexes" / self.vectors.name / rival.name / key(named)
        paths = [kept / f"{key({**named, 'search': search, **self.asked})}.json" for search in searches]
        made = kept / f"{key(named)}-build.json"
        job = {"vectors": str(self.vectors), "index": str(index), "build": build}
        complete = all(path.exists() for path in paths)
        # An index without a result of its build was stopped half way.
        usable = index.exists() and made.exists()
        if self.again or not (complete or usable):
            made.unlink(missing_ok=True)
            shutil.rmtree(index, ignore_errors=True)
        try:
            built = self.jobs.run(rival, {**job, "step": "build"}, made)
            for search, path in zip(searches, paths, strict=True):
                yield from self._one(rival, {**job, **self.asked, "search": search}, path, built)
        except JobFailed as error:
            self.failures[f"{rival.name} {build}"] = str(error)
        if not self.keep:
            shutil.rmtree(index, ignore_errors=True)

    def _one(self, rival: Rival, job: dict[str, Any], path: Path, built: Row) -> Iterator[Row]:
        try:
            found = self.jobs.run(rival, {**job, "step": "search"}, path)
        except JobFailed as error:
            self.failures[f"{rival.name} {job['build']} {job['search']}"] = str(error)
            return
        yield row(rival.name, job["build"], job["search"], built, found, self.vectors, self.exact)
