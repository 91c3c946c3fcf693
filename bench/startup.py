"""CPU time of `colrank --help`: what every call of the command line costs before it does anything.

python bench/startup.py
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

from judged import write_results

RUNS = 9


def main() -> None:
    seconds = []
    for _ in range(RUNS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "colrank", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    seconds = sorted(seconds[1:])  # the first warms the disk's cache
    results = {"cpu_seconds": [round(s, 3) for s in seconds], "median": round(statistics.median(seconds), 3)}
    print(results)
    write_results("startup", results)


if __name__ == "__main__":
    main()
