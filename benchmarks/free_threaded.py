"""python3.13t benchmarks/free_threaded.py: Python functions on two threads without the GIL.

Writes benchmarks/results/free_threaded.jsonl and prints it as a table, in a minute.  Each row is
one way to call the same pure Python function many times: by one thread of ours, by two, by a
plain loop and by the standard library's pool of two threads.  The four take turns and give the
same; of each, the least of its runs.  With a GIL there is nothing to gain, so it refuses to run.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import machine
import numpy as np

import pyblitz as pb

ITEMS = 4_000
NUMBERS = np.arange(1, ITEMS + 1)


def steps(n: Any) -> int:
    """Of Collatz's sequence, from n down to 1."""
    n = int(n)  # as par_map gives them
    count = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count


def of_block(block: np.ndarray) -> np.ndarray:
    return np.array([steps(n) for n in block])


def by_loop() -> np.ndarray:
    out = np.empty(ITEMS, int)

    def fill(lo: int, hi: int) -> None:
        out[lo:hi] = of_block(NUMBERS[lo:hi])

    pb.par_for(ITEMS, fill)
    return out


def by_tasks() -> np.ndarray:
    with pb.scope() as scope:
        tasks = [scope.spawn(of_block, part) for part in np.array_split(NUMBERS, 32)]
    return np.concatenate([task.result() for task in tasks])


WAYS: dict[str, Callable[[], Any]] = {
    "par_map, elementwise": lambda: pb.par_map(steps, NUMBERS, elementwise=True),
    "par_for": by_loop,
    "32 tasks of a scope": by_tasks,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        raise SystemExit("free_threaded.py: this Python has a GIL; run it by a free-threaded one")
    facts = machine.facts()
    others = concurrent.futures.ThreadPoolExecutor(2)
    pools = {1: pb.ThreadPool(1), 2: pb.ThreadPool(2)}
    expected = [steps(n) for n in NUMBERS]
    rows: list[dict[str, Any]] = []
    for name, way in WAYS.items():
        calls: dict[str, Callable[[], Any]] = {
            "one thread": partial(pools[1].install, way),
            "two threads": partial(pools[2].install, way),
            "plain loop": lambda: [steps(n) for n in NUMBERS],
            "standard library": lambda: list(others.map(steps, NUMBERS, chunksize=125)),
        }
        for who, call in calls.items():
            assert np.array_equal(call(), expected), (name, who)
        seconds = {who: min(took) for who, took in machine.interleave(calls, runs).items()}
        rows.append({"name": name, "items": ITEMS, "seconds": seconds})
        gain = seconds["one thread"] / seconds["two threads"]
        shown = {who: f"{1e3 * s:.1f} ms" for who, s in seconds.items()}
        print(name, shown, f"gain {gain:.2f}", flush=True)
    machine.write(machine.RESULTS / "free_threaded.jsonl", rows, facts)


if __name__ == "__main__":
    main()
