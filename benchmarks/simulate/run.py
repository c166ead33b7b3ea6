"""python benchmarks/simulate/run.py: validates the simulator, draws the curves, compares policies.

Writes benchmarks/results/simulate.jsonl and prints the same as tables; chart.py draws the curves.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
from dataclasses import replace

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import machine as benchmark

from simulate import costs, report, workloads
from simulate.costs import Machine, Row
from simulate.engine import Policy, Sim
from simulate.validate import Validation
from simulate.workloads import Workload

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
COMPARED = (4, 16, 64, 256, 1024)
OWN = Policy()
ALL = workloads.FIVE | workloads.MORE
FORKING = ("big map", "unbalanced tree", "small calls", "nested")

# What instead of the runtime's own policy: for which workloads, and what is to be said of it.
VARIANTS: list[tuple[str, Policy, tuple[str, ...], str]] = [
    (
        "wait: any job",
        replace(OWN, wait="any"),
        FORKING,
        "a waiter runs unrelated work, under the locks of its caller",
    ),
    (
        "wait: leapfrog along the chain of thieves",
        replace(OWN, wait="chain"),
        FORKING,
        "only work below the fork, as now",
    ),
    ("victim: nearest first", replace(OWN, victim="nearest"), tuple(workloads.FIVE), ""),
    ("wake: two at a time", replace(OWN, wake=2), tuple(workloads.FIVE), ""),
    (
        "guests in their turn, not first",
        replace(OWN, guests_first=False),
        ("big map", "small calls"),
        "",
    ),
    ("join: eager", replace(OWN, joins="eager"), ("unbalanced tree",), ""),
    (
        "join_lazy: showing a fork wakes one",
        replace(OWN, show_wakes=True),
        ("unbalanced tree",),
        "",
    ),
    (
        "join_lazy: the same, and along the chain",
        replace(OWN, show_wakes=True, wait="chain"),
        ("unbalanced tree",),
        "",
    ),
    (
        "counters: if their word cost nothing",
        replace(OWN, counters="free"),
        tuple(workloads.FIVE),
        "a bound: what several words could gain",
    ),
    (
        "scope: each worker counts what it spawns",
        replace(OWN, count="local"),
        ("spawns",),
        "instead of one atomic operation on the scope for each spawn",
    ),
]


def simulate(machine: Machine, workers: int, workload: Workload, policy: Policy, seed: int) -> Sim:
    sim = Sim(machine, workers, policy, seed)
    sim.run(lambda w: workload.root(sim, w))
    if sim.items != workload.items:
        raise RuntimeError(f"{workload.name}: {sim.items} of {workload.items} items ran")
    return sim


def seeds_for(workers: int, name: str) -> range:
    """Several where the shape depends on the seed; few where it takes long, and where there is
    less chance in it: with many workers."""
    if name == "unbalanced tree":
        return range(6 if workers <= 16 else 3 if workers <= 64 else 2)
    return range(2 if workers <= 16 else 1)


class Runs:
    """Each simulation once."""

    def __init__(self) -> None:
        self.done: dict[tuple[str, int, str, Policy], list[Sim]] = {}
        self.shapes: dict[tuple[str, int], Workload] = {}
        self.events = 0

    def workload(self, name: str, seed: int) -> Workload:
        key = (name, seed)
        if key not in self.shapes:
            self.shapes[key] = ALL[name](seed)
        return self.shapes[key]

    def get(self, machine: Machine, workers: int, name: str, policy: Policy) -> list[Sim]:
        key = (machine.name, workers, name, policy)
        if key not in self.done:
            sims = []
            for seed in seeds_for(workers, name):
                workload = self.workload(name, seed)
                sim = simulate(machine, workers, workload, policy, seed)
                self.events += sim.events
                sim.forget()
                sims.append(sim)
            self.done[key] = sims
        return self.done[key]

    def work(self, workers: int, name: str) -> float:
        return sum(self.shapes[name, seed].work for seed in seeds_for(workers, name))


def curve_rows(runs: Runs, machine: Machine) -> list[Row]:
    rows = []
    for name in ALL:
        for workers in WORKERS:
            sims = runs.get(machine, workers, name, OWN)
            taken = sum(sim.now for sim in sims)
            rows.append(
                {
                    "what": "curve",
                    "machine": machine.name,
                    "workload": runs.workload(name, 0).title,
                    "workers": workers,
                    "runs": len(sims),
                    "ns": round(taken / len(sims)),
                    "speedup": round(runs.work(workers, name) / taken, 3),
                    "steals": sum(sim.steals for sim in sims) // len(sims),
                    "wakes": sum(sim.wakes for sim in sims) // len(sims),
                }
            )
    return rows


def policy_rows(runs: Runs, machine: Machine) -> list[Row]:
    rows = []
    for label, policy, names, note in VARIANTS:
        for name in names:
            for workers in COMPARED:
                own = runs.get(machine, workers, name, OWN)
                other = runs.get(machine, workers, name, policy)
                ratios = [b.now / a.now for a, b in zip(own, other, strict=True)]
                rows.append(
                    {
                        "what": "policy",
                        "machine": machine.name,
                        "policy": label,
                        "workload": name,
                        "workers": workers,
                        "runs": len(ratios),
                        "ratio": round(report.mean(ratios), 4),
                        "least": round(min(ratios), 4),
                        "most": round(max(ratios), 4),
                        "stack": max(sim.deepest for sim in other),
                        "own_stack": max(sim.deepest for sim in own),
                        "note": note,
                    }
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulates the scheduler.")
    parser.add_argument("--output", default=benchmark.RESULTS / "simulate.jsonl", type=pathlib.Path)
    parser.add_argument("--results", default=costs.RESULTS, type=pathlib.Path, help="of the others")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    parser.add_argument("--only", choices=["validation", "curves", "policies"])
    parser.add_argument("--machine", choices=list(costs.MACHINES), default="two-sockets")
    options = parser.parse_args()
    begun = time.perf_counter()
    here = costs.here(options.results)
    compared = costs.MACHINES[options.machine](options.results)
    rows = here.table()
    if compared.name != here.name:
        rows += compared.table()
    runs = Runs()
    if options.only in (None, "validation"):
        rows += Validation(here, costs.measured(options.results)).rows()
    if options.only in (None, "curves"):
        for machine in dict.fromkeys([here.name, compared.name]):
            rows += curve_rows(runs, here if machine == here.name else compared)
    if options.only in (None, "policies"):
        rows += policy_rows(runs, compared)
    if not options.dry:
        benchmark.write(options.output, rows, benchmark.facts())
    print(report.page(rows, {m.name: m.title for m in (here, compared)}))
    print(f"{runs.events:,} events, {time.perf_counter() - begun:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
