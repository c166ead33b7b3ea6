"""python benchmarks/simulate/sleeping.py: the real scheduler with more threads than CPUs.

Leaves that sleep need no CPU, so that a machine with two can tell how 3, 4 ... 16 threads share
work.  Writes benchmarks/results/sleeping.jsonl, which run.py compares with the simulator: rows

- sleeping loop: parallel_for over 256 items of 1 ms;
- sleeping tree: joins, unbalanced trees of 200,001 nodes of 3 us, at most 100 in a block; the
  mean of three shapes, in which whoever waits for a stolen fork often finds nothing to do.

Each run has a pool of its own: what a pool remembers makes its runs alike.
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
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import machine  # noqa: E402

import pyblitz  # noqa: E402

THREADS = (1, 2, 3, 4, 6, 8, 16)
SHAPES = (0, 3, 6)


def built(directory: pathlib.Path, name: str) -> ModuleType:
    """``name``.pyx of this folder, compiled in ``directory`` against the pyblitz that is
    imported here."""
    package = pathlib.Path(pyblitz.__file__).resolve().parent.parent
    shutil.copy(HERE / f"{name}.pyx", directory)
    command = [sys.executable, "-m", "Cython.Build.Cythonize", "--quiet", "--inplace", "--build"]
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*command, f"{name}.pyx"],
        cwd=directory,
        # CPATH: where the compiler finds the runtime's headers.
        env={**os.environ, "PYTHONPATH": path, "CPATH": str(package)},
        capture_output=True,
        text=True,
    )
    libraries = list(directory.glob(f"{name}.*.so"))
    if done.returncode or not libraries:
        sys.exit(done.stdout + done.stderr)
    spec = importlib.util.spec_from_file_location(name, libraries[0])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(module: ModuleType, runs: int) -> list[dict[str, Any]]:
    cases: dict[str, list[Callable[[], None]]] = {
        "sleeping loop": [partial(module.loop, 256, 1_000_000)],
        "sleeping tree": [partial(module.tree, 200_001, 100, 3_000, k) for k in SHAPES],
    }
    found = []
    for threads in THREADS:
        for what, parts in cases.items():
            times = []
            for _ in range(runs if threads > 1 else 2):
                total = 0
                for part in parts:
                    pool = pyblitz.ThreadPool(threads)
                    begun = time.perf_counter_ns()
                    pool.install(part)
                    total += time.perf_counter_ns() - begun
                    pool.close()
                times.append(total / len(parts))
            row: dict[str, Any] = {
                "what": what,
                "who": "pyblitz",
                "threads": threads,
                "runs": len(times),
            }
            row |= {"ns_min": min(times), "ns_mean": statistics.mean(times)}
            found.append(row)
            print(f"{what:<15}{threads:>4} threads {row['ns_mean'] / 1e6:>9.2f} ms", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="The scheduler with more threads than CPUs.")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--output", default=machine.RESULTS / "sleeping.jsonl", type=pathlib.Path)
    options = parser.parse_args()
    facts = machine.facts()
    with tempfile.TemporaryDirectory() as scratch:
        found = rows(built(pathlib.Path(scratch), "_sleeping"), options.runs)
    machine.write(options.output, found, facts)
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
