"""python benchmarks/spinning.py: threads that wait awake, what they gain and what it costs others.

Writes benchmarks/results/spinning/<the processor>.jsonl and prints it as a table, in two
minutes.  A thread without work looks for some for up to PYBLITZ_SPIN microseconds before it
sleeps; each row is measured as it is by default and with 0, in processes of their own that take
turns:

loop        a sum of 10^5 doubles, called in a loop, with so many microseconds of Python between two
            calls; on one thread and on two, beside Numba and Polars
blas        matrix products by NumPy's BLAS, which has threads of its own, each after such a sum
neighbour   rounds of Python of another process on the same CPUs, beside the loop
idle        CPU time of a process in the 5 seconds after its last call
burst       16 sums of 2^18 or 2^20 doubles after 10 ms without any: the first one, and the median
            of the later ones; by one thread, by two, and by two that wake where Linux puts them
            (PYBLITZ_AFFINITY=0)
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import machine  # noqa: E402
import numpy as np  # noqa: E402

Row = dict[str, Any]
ITEMS = 10**5
GAPS = (0, 20, 100, 500)  # microseconds
SECONDS = 0.4  # of one measurement
ROUNDS = 5
IDLE = 5.0
BURST, BURSTS, PAUSE = 16, 40, 0.01  # calls, bursts, seconds before each
BURST_ITEMS = (1 << 18, 1 << 20)
SPINS = {"as it is": None, "0": "0"}
THREADS = (1, 2)


def busy(microseconds: float) -> None:
    """Python that needs its CPU for so long."""
    end = time.perf_counter() + microseconds / 1e6
    while time.perf_counter() < end:
        pass


def per_call(call: Callable[[], object], gap: float) -> float:
    """Median microseconds of a call, with `gap` of them between two."""
    took = []
    end = time.perf_counter() + SECONDS
    while (begun := time.perf_counter()) < end:
        call()
        took.append(time.perf_counter() - begun)
        if gap:
            busy(gap)
    return statistics.median(took) * 1e6


# ---- in a process of its own --------------------------------------------------


def sums_of(who: str) -> Callable[[], object]:
    a = np.random.default_rng(0).random(ITEMS)
    if who == "pyblitz":
        import pyblitz as pb

        return lambda: pb.par_sum(a)
    if who == "Polars":
        import polars

        series = polars.Series(a)
        return series.sum
    if who == "Numba":
        import numba

        @numba.njit(parallel=True, fastmath=True)
        def total(x: Any) -> float:
            found = 0.0
            for i in numba.prange(x.size):
                found += x[i]
            return found

        return lambda: total(a)
    return a.sum


def loop_child(who: str) -> dict[str, float]:
    call = sums_of(who)
    per_call(call, 0)
    return {str(gap): per_call(call, gap) for gap in GAPS}


def blas_child(who: str) -> dict[str, float]:
    """A product right after a sum, whose threads may still be awake."""
    call, product = sums_of(who), np.random.default_rng(1).random((300, 300))
    took = []
    end = time.perf_counter() + 3 * SECONDS
    while time.perf_counter() < end:
        call()
        begun = time.perf_counter()
        product @ product
        took.append(time.perf_counter() - begun)
        time.sleep(0.04)  # until the BLAS's own threads sleep
    return {"us": statistics.median(took) * 1e6}


def neighbour_child() -> dict[str, float]:
    """Rounds a second, of a process that knows nothing of us."""
    rounds = 0
    begun = time.perf_counter()
    while time.perf_counter() < begun + 3 * SECONDS:
        sum(range(200))
        rounds += 1
    return {"rounds": rounds / (time.perf_counter() - begun)}


def beside_child(gap: float) -> dict[str, float]:
    """The loop, until somebody closes its input."""
    import threading

    call = sums_of("pyblitz")
    ended = threading.Event()

    def until_closed() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=until_closed, daemon=True).start()
    call()
    print("{}", flush=True)
    while not ended.is_set():
        call()
        if gap:
            time.sleep(gap / 1e6)
    return {}


def idle_child() -> dict[str, float]:
    call = sums_of("pyblitz")
    time.sleep(0.2)  # threads of NumPy's BLAS spin when they have been started
    for _ in range(1000):
        call()
    begun = time.process_time()
    time.sleep(IDLE)
    return {"ms": (time.process_time() - begun) * 1e3}


def burst_child() -> dict[str, float]:
    """Microseconds, medians over the bursts."""
    import pyblitz as pb

    time.sleep(0.2)  # as in idle_child
    found = {}
    for items in BURST_ITEMS:
        a = np.random.default_rng(0).random(items)
        first, later = [], []
        for _ in range(BURSTS):
            time.sleep(PAUSE)
            took = []
            for _ in range(BURST):
                begun = time.perf_counter()
                pb.par_sum(a)
                took.append(time.perf_counter() - begun)
            first.append(took[0])
            later.append(statistics.median(took[1:]))
        found[f"{items} first"] = statistics.median(first) * 1e6
        found[f"{items} later"] = statistics.median(later) * 1e6
    return found


# ---- all of them -------------------------------------------------------------


def environment(threads: int, spin: str | None) -> dict[str, str]:
    count = str(threads)
    made = {**os.environ, "PYBLITZ_NUM_THREADS": count, "NUMBA_NUM_THREADS": count}
    made |= {"POLARS_MAX_THREADS": count}
    made.pop("PYBLITZ_SPIN", None)
    return made if spin is None else made | {"PYBLITZ_SPIN": spin}


def child(
    what: str, threads: int, spin: str | None, *options: str, affinity: str = "1"
) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--child", what, *options],
        env=environment(threads, spin) | {"PYBLITZ_AFFINITY": affinity},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def beside(spin: str | None, gap: float) -> float:
    """Rounds a second of a neighbour, on CPUs that the loop uses, too."""
    ours = subprocess.Popen(
        [sys.executable, __file__, "--child", "beside", str(gap)],
        env=environment(2, spin),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert ours.stdout is not None
    ours.stdout.readline()
    try:
        return child("neighbour", 1, None)["rounds"]
    finally:
        ours.communicate()


def loops(rounds: int) -> Iterator[Row]:
    contestants = [
        ("pyblitz", 1, "as it is"),
        *(("pyblitz", 2, spin) for spin in SPINS),
        ("NumPy", 1, "as it is"),
        *((who, 2, "as it is") for who in ("Numba", "Polars")),
    ]
    found: dict[tuple[str, int, str], list[dict[str, float]]] = {c: [] for c in contestants}
    for _ in range(rounds):
        for who, threads, spin in contestants:
            found[who, threads, spin].append(child("loop", threads, SPINS[spin], who))
    for (who, threads, spin), runs in found.items():
        for gap in GAPS:
            us = statistics.median(run[str(gap)] for run in runs)
            yield {
                "what": "loop", "who": who, "threads": threads, "spin": spin, "gap": gap, "us": us
            }  # fmt: skip


def others(rounds: int) -> Iterator[Row]:
    found: dict[tuple[str, str, int], list[float]] = {}
    for _ in range(rounds):
        for spin, value in SPINS.items():
            for who in ("NumPy", "pyblitz"):
                us = child("blas", 2, value, who)["us"]
                found.setdefault(("blas", f"{who}, {spin}", 0), []).append(us)
            for gap in GAPS:
                found.setdefault(("neighbour", spin, gap), []).append(beside(value, gap))
        alone = child("neighbour", 1, None)["rounds"]
        found.setdefault(("neighbour", "alone", 0), []).append(alone)
    for spin, value in SPINS.items():
        found["idle", spin, 0] = [child("idle", 2, value)["ms"] for _ in range(rounds)]
    for (what, spin, gap), values in found.items():
        yield {"what": what, "spin": spin, "gap": gap, "value": statistics.median(values)}


def bursts(rounds: int) -> Iterator[Row]:
    ways = {
        "one thread": (1, "1"),
        "two threads": (2, "1"),
        "two threads, PYBLITZ_AFFINITY=0": (2, "0"),
    }
    found: dict[str, list[dict[str, float]]] = {who: [] for who in ways}
    for _ in range(rounds):
        for who, (threads, affinity) in ways.items():
            found[who].append(child("burst", threads, None, affinity=affinity))
    for who, runs in found.items():
        for items in BURST_ITEMS:
            us = {k: statistics.median(r[f"{items} {k}"] for r in runs) for k in ("first", "later")}
            yield {"what": "burst", "who": who, "items": items, **us}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, *rest = options.child
        children: dict[str, Callable[[], dict[str, float]]] = {
            "loop": lambda: loop_child(rest[0]),
            "blas": lambda: blas_child(rest[0]),
            "neighbour": neighbour_child,
            "beside": lambda: beside_child(float(rest[0])),
            "idle": idle_child,
            "burst": burst_child,
        }
        print(json.dumps(children[what]()))
        return
    facts = machine.facts()
    rows = [*loops(options.rounds), *others(options.rounds), *bursts(options.rounds)]
    for row in rows:
        print(json.dumps(row))
    machine.write(machine.results_here("spinning"), rows, facts)


if __name__ == "__main__":
    main()
