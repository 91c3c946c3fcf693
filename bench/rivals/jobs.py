"""One job of a worker: a subprocess with two threads on two cores. Its result is kept, not made twice."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from contestants import Rival
from venvs import Venvs

HERE = Path(__file__).parent
THREADS = 2
SAMPLED_SECONDS = 0.1
COUNTED = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "RAYON")


def key(settings: Any) -> str:
    """A short name for settings."""
    return xxhash.xxh3_64_hexdigest(json.dumps(settings, sort_keys=True).encode())


def worker_key(rival: Rival) -> str:
    """A short name for what a rival's worker does: other comments or line breaks are no other worker."""
    source = (HERE / "workers" / f"{rival.worker}.py").read_text()
    return key(ast.dump(ast.parse(source)))


def pace() -> float:
    """Billions of float32 operations a second of a matrix product now.

    Kept beside each result: two results taken at a different pace of the machine should not be compared.
    """
    left, right = np.ones((1024, 1024), np.float32), np.ones((1024, 1024), np.float32)
    left @ right
    begin = time.perf_counter()
    for _ in range(8):
        left @ right
    return round(8 * 2 * 1024**3 / (time.perf_counter() - begin) / 1e9, 1)


class JobFailed(Exception):
    """A worker that stopped with an error, or ran for too long."""


class Jobs:
    """Runs jobs, in folders under one of their own.

    Args:
        again: make results anew that are there.
    """

    def __init__(self, work: Path, venvs: Venvs, again: bool) -> None:
        self._work = work
        self._venvs = venvs
        self._again = again
        self._cores = sorted(os.sched_getaffinity(0))[:THREADS]

    def pins(self, rival: Rival) -> list[str]:
        """What a rival's environment is made of, a part of the name of a result."""
        return self._venvs.pins(rival)

    def run(self, rival: Rival, job: dict[str, Any], kept: Path) -> dict[str, Any]:
        """The result of a job, from disk where it is there.

        Args:
            job: what `worker_side.work` reads, without the name of the file of the result.
            kept: where the result is kept.

        Raises:
            JobFailed: the worker failed; the message ends with its last words.
        """
        if kept.exists() and not self._again:
            return json.loads(kept.read_text())
        python = self._venvs.python(rival)
        kept.parent.mkdir(parents=True, exist_ok=True)
        made, asked, log = kept.with_suffix(".new"), kept.with_suffix(".job"), kept.with_suffix(".log")
        asked.write_text(json.dumps({**job, "result": str(made)}, indent=1))
        before = pace()
        command = [python, "-m", f"workers.{rival.worker}", asked]
        with log.open("w") as out:
            process = subprocess.Popen(
                list(map(str, command)),
                cwd=HERE,
                env=self._environment(rival, python),
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: os.sched_setaffinity(0, self._cores),
            )
            try:
                peak = _watch(process, rival.longest, sampled=job["step"] == "build")
            finally:
                process.kill()  # where we are stopped, it stops too
        if process.returncode != 0:
            raise JobFailed(f"exit {process.returncode}, see {log}: {_last_words(log)}")
        result = {
            "job": job,
            "pins": self._venvs.pins(rival),
            "pace_gflops": [before, pace()],
            **peak,
            **json.loads(made.read_text()),
        }
        made.write_text(json.dumps(result))
        made.replace(kept)
        return result

    def _environment(self, rival: Rival, python: Path) -> dict[str, str]:
        counts = {f"{name}_NUM_THREADS": str(THREADS) for name in COUNTED}
        return {
            **os.environ,
            **counts,
            **rival.environment,
            # Compilers that a rival brings along are looked for beside its interpreter.
            "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            "TORCH_EXTENSIONS_DIR": str(self._work / "extensions" / rival.name),
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONUNBUFFERED": "1",
        }


def _watch(process: subprocess.Popen[bytes], longest: float, sampled: bool) -> dict[str, int]:
    """Wait for a process; the most anonymous memory that it had, where that is asked for."""
    end = time.monotonic() + longest
    peak = 0
    while process.poll() is None:
        if time.monotonic() > end:
            process.kill()
            process.wait()
            break
        if sampled:
            peak = max(peak, _anonymous(process.pid))
        time.sleep(SAMPLED_SECONDS)
    return {"peak_anonymous": peak} if sampled else {}


def _anonymous(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"
