"""python benchmarks/simulate/prices.py: what the steps of the runtime and of the system cost here.

Writes benchmarks/results/prices.jsonl, from which costs.py takes what the simulated steps take.
A row has the least, the median and the most of its runs, and says which of them is the price: the
least where one thread works alone, whom others can only disturb; else the median.  Rows without
a price are there to be compared.

Each step is measured alone: by one thread, or by two threads that belong to no pool, each on its
own CPU.  No row is one of pyblitz with two threads, which the simulator has to predict.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import machine  # noqa: E402
from scheduler import compiled  # noqa: E402

import pyblitz  # noqa: E402
from simulate.sleeping import built  # noqa: E402

Row = dict[str, Any]

DEPTH = 20  # of the tree of joins
TIMES = 20_000  # operations of one run, short enough to be left in peace
TRIPS = 1_000
SWEEPS = 1_000  # 2 x 64 looks each
STEPS = 1_000_000  # of work between two looks of who is interrupted: some ms
AWAKE_NS = 50_000  # how long who is woken soon has slept
IDLE_NS = 20_000_000  # and who slept for long
DOUBLES = 8_000_000  # of each array: far more than any cache holds
PASSES = 4


def row(
    what: str, values: Sequence[float], threads: int, of: str | None, unit: str = "ns", **more: Any
) -> Row:
    """``of``: which figure is the price."""
    figures = {
        "least": round(min(values), 3),
        "median": round(statistics.median(values), 3),
        "most": round(max(values), 3),
    }
    found: Row = {"what": what, "threads": threads, "unit": unit, "runs": len(values)} | figures
    if of is not None:
        found |= {"of": of, "price": figures[of]}
    return found | more


@contextmanager
def fenced(refused: bool) -> Iterator[None]:
    """Pools made in here have fenced pops for good, if ``refused``."""
    name = "PYBLITZ_MEMBARRIER"
    before = os.environ.pop(name, None)
    os.environ[name] = "0" if refused else "1"
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


@contextmanager
def pinned(cpu: int) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def forks(tree: Any, runs: int) -> list[Row]:
    """What the fence in the owner's pop adds to a join: pools of one thread, in turn."""
    pools = {}
    for name, refused in (("biased", False), ("fenced", True)):
        with fenced(refused):
            pools[name] = pyblitz.ThreadPool(1)
    joins = {name: partial(pool.install, tree.forked) for name, pool in pools.items()}
    seconds = machine.interleave(joins, 3 * runs)
    for pool in pools.values():
        pool.close()
    times = {name: [s * 1e9 / tree.joins for s in found] for name, found in seconds.items()}
    fence = [min(times["fenced"]) - min(times["biased"])]
    return [
        row("join and two calls, biased", times["biased"], 1, None),
        row("join and two calls, fenced", times["fenced"], 1, None),
        row("fence", fence, 1, "least") | {"runs": 3 * runs},
    ]


def alone(module: Any, runs: int) -> list[Row]:
    """What one thread pays, in turn."""

    def inside(measure: Callable[[int], float]) -> float:
        value: float = pool.install(measure, TIMES)
        return value

    names = ("clock", "atomic", "yielding", "spin", "node", "task")
    measures = {name: getattr(module, f"{name}_ns") for name in names}
    found: dict[str, list[float]] = {name: [] for name in names}
    pool = pyblitz.ThreadPool(1)
    for k in range(20 * runs + 1):
        for name, measure in measures.items():
            value = inside(measure) if name in ("node", "task") else measure(TIMES)
            if k > 0:  # the first warms up
                found[name].append(value)
    pool.close()
    clock, atomic = min(found["clock"]), min(found["atomic"])
    # The simulated ones pay for these on their own.
    found["node"] = [max(0.1, value - clock) for value in found["node"]]
    found["task"] = [max(0.1, value - atomic) for value in found["task"]]
    return [row(name, values, 1, "least") for name, values in found.items()]


def between(module: Any, runs: int, clock: float, cpu: int) -> list[Row]:
    """What it costs that another core has the line: medians, as latencies between cores are
    published."""
    looks, again = module.sweep_ns(runs * SWEEPS, False, cpu)
    steals, _ = module.sweep_ns(runs * SWEEPS, True, cpu)
    share = clock / 64  # of the clock, in one of the victims of a sweep
    looks = [max(0.1, value - share) for value in looks]
    thefts = [max(0.1, value - clock) for value in steals]
    return [
        row("transfer", module.transfer_ns(TRIPS, 20 * runs, cpu), 2, "median"),
        row("look", looks, 2, "median"),
        row("look, nothing changed", [max(0.1, value - share) for value in again], 2, None),
        row("steal", thefts, 2, "median"),
    ]


def wakes(module: Any, runs: int, clock: float, cpu: int) -> list[Row]:
    """A thread is parked, and unparked by another core."""
    rows = []
    for name, idle, times in (("wake", IDLE_NS, 40), ("wake_soon", AWAKE_NS, 1_000)):
        pairs = module.wakes_ns(runs * times, idle, cpu)
        rows.append(row(name, [ran for _, ran in pairs], 2, "median", slept_ns=idle))
        calls = [max(0.1, called - clock) for called, _ in pairs]
        if name == "wake":
            rows.append(row("wake_call", calls, 2, "median", slept_ns=idle))
        else:
            rows.append(row("wake_call, soon", calls, 2, None, slept_ns=idle))
    return rows


def revocations(module: Any, runs: int, cpu: int) -> list[Row]:
    """A membarrier: what it takes its caller, and by how much it delays a thread that runs."""
    callers: list[float] = []
    owners = []
    for _ in range(runs):
        found = module.revocations_ns(STEPS, cpu)
        if found is None:
            return []
        times, free, disturbed = found
        callers += times
        base = statistics.median(free)
        owners += [max(0.1, (took - base) / met) for took, met in disturbed if met]
    if not owners:
        return []
    return [
        row("revoke_thief", callers, 2, "median"),
        row("revoke_owner", owners, 2, "median"),
    ]


def streams(module: Any, runs: int, cpus: list[int]) -> list[Row]:
    """Bytes per ns: the most, for whoever is disturbed moves less."""
    rows = []
    cases = {"core_bandwidth": cpus[:1]}
    if len(cpus) > 1:
        cases["socket_bandwidth"] = cpus
    for name, some in cases.items():
        values = [module.bandwidth(some, DOUBLES, PASSES) for _ in range(runs)]
        rows.append(row(name, values, len(some), "most", "bytes/ns"))
    return rows


def measure(module: Any, tree: Any, runs: int) -> list[Row]:
    rows = forks(tree, runs) + alone(module, runs)
    clock = next(r["price"] for r in rows if r["what"] == "clock")
    # The first and the last: neighbours may be two threads of one core.
    every = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [-1]
    cpus = [every[0], every[-1]] if len(every) > 1 else every
    if len(cpus) == 1:
        return rows + streams(module, runs, cpus)
    with pinned(cpus[0]):
        cpu = cpus[1]
        two = between(module, runs, clock, cpu) + wakes(module, runs, clock, cpu)
        two += revocations(module, runs, cpu)
    return rows + [r | {"on": cpus} for r in two] + streams(module, runs, cpus)


def table(rows: list[Row]) -> str:
    lines = [f"{'what':<30}{'threads':>7}{'price':>12}{'least':>12}{'median':>12}  unit"]
    for r in rows:
        price = f"{r['price']:,.2f}" if "price" in r else "-"
        lines.append(
            f"{r['what']:<30}{r['threads']:>7}{price:>12}{r['least']:>12,.2f}"
            f"{r['median']:>12,.2f}  {r['unit']}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the steps of the runtime cost here.")
    parser.add_argument("--runs", type=int, default=9, help="of each row (default 9)")
    parser.add_argument("--output", default=machine.RESULTS / "prices.jsonl", type=pathlib.Path)
    options = parser.parse_args()
    facts = machine.facts()  # now, for the load that is not ours
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        tree = compiled(directory, "_scheduler").EmptyTree(DEPTH)
        rows = measure(built(directory, "_prices"), tree, options.runs)
    machine.write(options.output, rows, facts)
    print(f"{facts['cpu']}, {facts['cpus']} cpus, load {facts['load']:.2f}, {facts['date']}")
    print(table(rows))
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
