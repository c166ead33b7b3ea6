"""python benchmarks/executors.py: pyblitz in the places of others' thread pools.

Writes benchmarks/results/executors.jsonl and prints it as a table, in some minutes; ``--quick``
takes few runs and writes nothing.  The parts, by ``what``:

- joblib: 10^5 jobs that do nothing, a random forest and a grid search of scikit-learn, by the
  backends "pyblitz", "threading" and "loky", each with two jobs at a time.
- executor: 10^4 jobs that do nothing, by `ThreadPool` and the standard library's pool: `submit` and
  `map`, and `map` with 100 calls a job.

The contestants take turns, and each gives what the others give; of each the least of its runs.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import joblib
import machine
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import pyblitz as pb
import pyblitz.joblib

Row = dict[str, Any]
TINY = 100_000  # jobs for joblib
JOBS = 10_000
WORKERS = 2
BACKENDS = ("pyblitz", "threading", "loky")


def nothing(k: int) -> int:
    return k


def fastest(calls: Mapping[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """Seconds; the first call of each is not counted."""
    expected = next(iter(calls.values()))()
    best: dict[str, float] = {}
    for turn in range(runs + 1):
        for name, call in calls.items():
            began = time.perf_counter()
            got = call()
            took = time.perf_counter() - began
            assert np.array_equal(got, expected), name
            if turn:
                best[name] = min(took, best.get(name, took))
    return best


def with_joblib(runs: int) -> Iterator[Row]:
    digits = load_digits()
    x, y = digits.data, digits.target

    def tiny() -> list[int]:
        return list(joblib.Parallel(WORKERS)(joblib.delayed(nothing)(k) for k in range(TINY)))

    def forest() -> Any:
        model = RandomForestClassifier(100, random_state=0, n_jobs=WORKERS)
        return model.fit(x, y).predict(x)

    def search() -> Any:
        grid = {"C": [0.01, 0.1, 1.0, 10.0]}
        model = GridSearchCV(LogisticRegression(max_iter=200), grid, cv=3, n_jobs=WORKERS)
        return model.fit(x / 16, y).cv_results_["mean_test_score"]

    def by(backend: str, call: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            with joblib.parallel_config(backend):
                return call()

        return run

    for name, call in {
        f"{TINY:,} jobs that do nothing": tiny,
        "scikit-learn: random forest of digits": forest,
        "scikit-learn: grid search of digits": search,
    }.items():
        seconds = fastest({backend: by(backend, call) for backend in BACKENDS}, runs)
        yield {"what": "joblib", "name": name, "seconds": seconds}


def with_executors(runs: int) -> Iterator[Row]:
    pools: dict[str, concurrent.futures.Executor] = {
        "pyblitz": pb.ThreadPool(max_workers=WORKERS),
        "standard library": concurrent.futures.ThreadPoolExecutor(WORKERS),
    }
    ways: dict[str, Callable[[Any], list[int]]] = {
        "submit": lambda pool: [f.result() for f in [pool.submit(nothing, k) for k in range(JOBS)]],
        "map": lambda pool: list(pool.map(nothing, range(JOBS))),
        "map, 100 a job": lambda pool: list(pool.map(nothing, range(JOBS), chunksize=100)),
    }
    for name, way in ways.items():
        calls = {who: partial(way, pool) for who, pool in pools.items()}
        yield {"what": "executor", "name": name, "seconds": fastest(calls, runs)}
    for pool in pools.values():
        pool.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    facts = machine.facts()
    rows: list[Row] = []
    for part in (with_executors(2 if quick else 9), with_joblib(1 if quick else 5)):
        for row in part:
            rows.append(row)
            shown = {who: f"{1e3 * seconds:.1f} ms" for who, seconds in row["seconds"].items()}
            print(row["name"], shown, flush=True)
    if not quick:
        machine.write(machine.RESULTS / "executors.jsonl", rows, facts)


if __name__ == "__main__":
    main()
