"""python benchmarks/counts.py: what does not depend on the machine's clock.

Writes benchmarks/results/counts.jsonl and prints it as a table:

- instructions of one fork that nobody steals, of one steal and of one wake (without the
  system call), by valgrind's callgrind if it is here;
- steals, failed steals and wakes of one operation, for pools of 2, 8 and 64 threads, beside
  the bound of the theory: O(P * depth) steals are expected (Blumofe and Leiserson, 1999);
- wakes for each job of a burst of 10^4 jobs from outside.
"""

from __future__ import annotations

import argparse
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import machine  # noqa: E402
from scheduler import compiled  # noqa: E402

import pyblitz  # noqa: E402

MEASURED = ["call", "join", "join_lazy", "push", "steal", "wake"]
COUNTED = ["jobs", "steals", "failed_steals", "promotions", "wakes"]
TIMES = 50_000

Row = dict[str, Any]


def instructions(directory: pathlib.Path) -> list[Row]:
    """Of one of each; two plain calls are taken off a join."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return [{"what": "instructions", "missing": "there is no valgrind"}]
    out = directory / "callgrind.out"
    program = (
        f"import sys; sys.path.insert(0, {str(directory)!r})\n"
        "import pyblitz, _counts\n"
        "pyblitz.set_num_threads(1)\n"
        f"for which in range({len(MEASURED)}):\n"
        # The first of each fills caches and binds symbols; callgrind counts both.
        f"    _counts.measure(which, {TIMES})\n"
    )
    package = pathlib.Path(pyblitz.__file__).resolve().parent.parent
    done = subprocess.run(
        [
            *(valgrind, "--tool=callgrind", f"--callgrind-out-file={out}"),
            *("--collect-atstart=no", "--toggle-collect=*measured_*"),
            *(sys.executable, "-c", program),
        ],
        env={**os.environ, "PYTHONPATH": str(package), "PYTHONMALLOC": "malloc"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return [{"what": "instructions", "missing": done.stderr.strip().splitlines()[-1]}]
    text = subprocess.run(
        ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(out)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = dict.fromkeys(MEASURED, 0.0)
    for count, name in re.findall(r"^\s*([\d,]+) .*?measured_(\w+)", text, re.M):
        # The whole function; what its inlined headers take is listed beside it.
        found[name] = max(found[name], int(count.replace(",", "")) / TIMES)
    rows = []
    for name in ("join", "join_lazy", "steal", "wake"):
        count = found[name] - (found["call"] if name.startswith("join") else 0)
        rows.append({"what": f"instructions of a {name}", "count": round(count, 1)})
    return rows


def operations(module: ModuleType, threads: int, repeat: int) -> list[Row]:
    """Medians over operations, each in a pool that is warm."""
    pyblitz.set_num_threads(threads)
    depth = 14
    n = 20_000
    # The depth of the loop's tree counts down to leaves of some 4 us, six iterations.
    cases: dict[str, tuple[Callable[[], object], float]] = {
        f"loop of {n:,} iterations": (partial(module.loop, n), math.log2(n / 6)),
        f"tree of 2^{depth} leaves, join": (partial(module.forks, depth, False), depth),
        f"tree of 2^{depth} leaves, join_lazy": (partial(module.forks, depth, True), depth),
    }
    rows = []
    for what, (operation, levels) in cases.items():
        operation()
        seen: dict[str, list[int]] = {}
        for _ in range(repeat):
            with pyblitz.stats() as stats:
                operation()
                time.sleep(0.002)  # thieves go on looking for a while: that belongs to it
            for name in COUNTED:
                seen.setdefault(name, []).append(sum(getattr(w, name) for w in stats.workers))
        medians = {name: statistics.median(counts) for name, counts in seen.items()}
        rows.append({"what": what, "threads": threads, "bound": round(threads * levels), **medians})
    return rows


def bursts(module: ModuleType, repeat: int) -> list[Row]:
    jobs = 10_000
    rows = []
    for threads in (2, 8):
        pyblitz.set_num_threads(threads)
        module.burst(jobs)
        wakes = []
        for _ in range(repeat):
            time.sleep(0.02)
            with pyblitz.stats() as stats:
                module.burst(jobs)
            wakes.append(sum(w.wakes for w in stats.workers) / jobs)
        rows.append(
            {
                "what": "wakes per job of a burst",
                "threads": threads,
                "median": statistics.median(wakes),
                "most": max(wakes),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Instructions, steals and wakes.")
    parser.add_argument("--repeat", type=int, default=30, help="operations (default 30)")
    parser.add_argument("--output", default=machine.RESULTS / "counts.jsonl", type=pathlib.Path)
    options = parser.parse_args()
    facts = machine.facts()
    before = pyblitz.num_threads()
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        module = compiled(directory, "_counts")
        rows = instructions(directory)
        for threads in (2, 8, 64):
            rows += operations(module, threads, options.repeat)
        rows += bursts(module, options.repeat)
    pyblitz.set_num_threads(before)
    machine.write(options.output, rows, facts)
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
