"""python benchmarks/simulate/sleeping.py: the real scheduler with more threads than CPUs.

Leaves that sleep need no CPU, so that a machine with two can tell how 3, 4 ... 16 threads share
work.  Writes benchmarks/results/sleeping.jsonl, which run.py compares with the simulator: rows

- sleeping loop: parallel_for over 256 items of 1 ms;
- sleeping tree: joins, an unbalanced tree of 200,001 nodes of 3 us, at most 100 in a block; its
  shape is one at which whoever waits for a stolen fork finds little to do.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from types import ModuleType
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import machine  # noqa: E402

import pyblitz  # noqa: E402

THREADS = (1, 2, 3, 4, 6, 8, 16)


def built(directory: pathlib.Path) -> ModuleType:
    """_sleeping.pyx, compiled in ``directory`` against the pyblitz that is imported here."""
    package = pathlib.Path(pyblitz.__file__).resolve().parent.parent
    shutil.copy(HERE / "_sleeping.pyx", directory)
    command = [sys.executable, "-m", "Cython.Build.Cythonize", "--quiet", "--inplace", "--build"]
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*command, "_sleeping.pyx"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    libraries = list(directory.glob("_sleeping.*.so"))
    if done.returncode or not libraries:
        sys.exit(done.stdout + done.stderr)
    spec = importlib.util.spec_from_file_location("_sleeping", libraries[0])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(module: ModuleType, runs: int) -> list[dict[str, Any]]:
    cases = {
        "sleeping loop": lambda: module.loop(256, 1_000_000),
        "sleeping tree": lambda: module.tree(200_001, 100, 3_000, 6),
    }
    found = []
    for threads in THREADS:
        pool = pyblitz.ThreadPool(threads)
        for what, case in cases.items():
            times = []
            for _ in range(runs if threads > 1 else 2):
                begun = time.perf_counter_ns()
                pool.install(case)
                times.append(time.perf_counter_ns() - begun)
            row = {"what": what, "who": "pyblitz", "threads": threads, "runs": len(times)}
            row |= {"ns_min": min(times), "ns_median": statistics.median(times)}
            found.append(row)
            print(f"{what:<15}{threads:>4} threads {row['ns_median'] / 1e6:>9.2f} ms", flush=True)
        pool.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="The scheduler with more threads than CPUs.")
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--output", default=machine.RESULTS / "sleeping.jsonl", type=pathlib.Path)
    options = parser.parse_args()
    facts = machine.facts()
    with tempfile.TemporaryDirectory() as scratch:
        found = rows(built(pathlib.Path(scratch)), options.runs)
    machine.write(options.output, found, facts)
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
