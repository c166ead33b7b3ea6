"""The simulator beside what was measured.

What one thread alone pays is an input, taken from the rows with one thread; how two and more
threads come out is predicted from those.  A row is right within 15 %.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace

from simulate.costs import Machine, Row
from simulate.engine import Bridge, Job, Policy, Program, Sim, Worker
from simulate.workloads import Workload, batch, big_map, fibonacci, half, tree

WITHIN = 0.15
Measured = dict[tuple[str, int], Row]
HOW = {"lazy": Policy(joins="lazy"), "forked": Policy(joins="eager")}

# Until they are measured: ns that one thread takes.
PLAIN = 1.945  # two calls through a pointer, for each join of the empty tree
PLAIN_FIB = 60e6  # fib(35) without forks
NODE = 5.0  # of the tree sum, with its half of a fork
ITERATION = 700.0


def run(machine: Machine, threads: int, workload: Workload, policy: Policy, seed: int = 1) -> float:
    sim = Sim(machine, threads, policy, seed)
    return sim.run(lambda w: workload.root(sim, w))


class Validation:
    """Simulates each measured row."""

    def __init__(self, machine: Machine, measured: Measured) -> None:
        self.machine = machine
        self.measured = measured

    def value(self, what: str, threads: int, field: str, otherwise: float) -> float:
        return float(self.measured.get((what, threads), {}).get(field, otherwise))

    def fork(self, how: str) -> float:
        costs = self.machine.costs
        return costs.fork_lazy if how == "lazy" else costs.fork_eager

    # ---- each row: ns, as the benchmark gives it, what is plain included

    def join(self, threads: int, how: str) -> float:
        joins = 2**20 - 1
        nodes = 2 * joins + 1
        name = "join_lazy" if how == "lazy" else "join"
        plain = self.value(name, 1, "plain_ns_min", PLAIN)
        workload = tree(nodes, plain * joins / nodes, 1023, split=half)
        return run(self.machine, threads, workload, HOW[how]) / joins

    def treesum(self, threads: int, how: str) -> float:
        nodes = 10_000_001
        total = self.value(f"treesum {how}", 1, "total_ns_min", NODE)
        node = max(0.1, total - self.fork(how) / 2)
        return run(self.machine, threads, tree(nodes, node, 1500, split=half), HOW[how]) / nodes

    def fib(self, threads: int, how: str) -> float:
        """Plain calls and the cost of a join from the empty tree, if one thread alone was not
        measured."""
        n = 35
        calls = fibonacci(n, 1.0, n - 20).items
        whole = self.value(f"fib {how}", threads, "plain_ns_min", PLAIN_FIB)
        alone = self.measured.get((f"fib {how}", 1))
        if alone is not None:
            whole = float(alone["total_ns_min"]) - calls // 2 * self.fork(how)
        workload = fibonacci(n, max(0.1, whole / calls), n - 20)
        return run(self.machine, threads, workload, HOW[how])

    def parallel_for(self, threads: int) -> float:
        """Calls back to back: the pool is awake."""
        item = self.value("parallel_for", 2, "ideal_ns", ITERATION * 500) * 2 / 1000
        times: list[float] = []
        sim = Sim(self.machine, threads)

        def root(w: Worker) -> Program:
            for _ in range(21):
                begun = sim.now
                bridge = Bridge(lambda w, lo, hi: item * (hi - lo), 0)
                yield sim.bridge(w, bridge, 1000)
                yield 0.0
                times.append(sim.now - begun)

        sim.run(root)
        return statistics.median(times[1:])

    def tasks(self, threads: int, what: str) -> float:
        """Empty tasks, at the price of a push and a pop each."""
        n = 1_000_000
        costs = self.machine.costs
        alone = self.value(what, 1, "ns_min", costs.task)
        machine = replace(self.machine, costs=replace(costs, task=min(costs.task, alone)))
        task = max(0.1, alone - costs.task)
        return run(machine, threads, batch(n, task, 256), Policy()) / n

    def sibling(self, threads: int, how: str) -> float:
        """How soon the sibling of a long leaf starts, when the pool sleeps."""
        times: list[float] = []
        sim = Sim(self.machine, threads, HOW["lazy" if how == "lazy" else "forked"])

        def leaf(w: Worker) -> Program:
            yield sim.block(w, 1e6)

        def sibling(w: Worker) -> Program:
            times.append(sim.now + w.debt)
            yield 0.0

        sim.run(lambda w: sim.join(w, leaf, sibling))
        return times[0]

    def latency(self, idle: float) -> float:
        """A job from outside to a pool of two, until the poster, polling, sees its flag."""
        sim = Sim(self.machine, 2)
        times: list[float] = []

        def root(w: Worker) -> Program:
            for _ in range(100):
                yield idle
                begun = sim.now

                def body(w: Worker) -> Program:
                    yield 0.0

                job = Job(body, w)
                sim.inject(w, job)
                w.waits, w.spinning = job, True
                yield None
                times.append(sim.now - begun)

        sim.run(root)
        return statistics.median(times)

    def sleeping(self, what: str, threads: int) -> float:
        """Leaves that sleep need no CPU: more threads than there are CPUs.  The mean, as of the
        measured runs: who steals first may matter much."""
        alone = self.value(what, 1, "ns_min", 0.0)
        if what == "sleeping loop":
            parts = [big_map(256, alone / 256)]
        else:
            parts = [tree(200_001, alone / 200_001, 100, shape) for shape in (0, 3, 6)]
        return statistics.mean(
            run(self.machine, threads, part, HOW["forked"], seed)
            for part in parts
            for seed in range(8)
        )

    # ---- all

    def rows(self) -> list[Row]:
        fork, whole = "ns per join and two calls", "ns"
        table: list[tuple[str, str, tuple[int, ...], Callable[[int], float], str]] = [
            ("join", fork, (1, 2), lambda n: self.join(n, "forked"), ""),
            ("join_lazy", fork, (1, 2), lambda n: self.join(n, "lazy"), ""),
            ("treesum lazy", "ns per node", (1, 2), lambda n: self.treesum(n, "lazy"), ""),
            ("treesum forked", "ns per node", (1, 2), lambda n: self.treesum(n, "forked"), ""),
            ("fib lazy", whole, (1, 2), lambda n: self.fib(n, "lazy"), ""),
            ("fib forked", whole, (1, 2), lambda n: self.fib(n, "forked"), ""),
            ("parallel_for", whole, (2,), self.parallel_for, "calls back to back"),
            ("spawn_many", "ns per task", (1, 2), lambda n: self.tasks(n, "spawn_many"), ""),
            ("scope_map", "ns per task", (1, 2), lambda n: self.tasks(n, "scope_map"), ""),
            ("sibling eager", whole, (2,), lambda n: self.sibling(n, "eager"), ""),
            ("sibling lazy", whole, (2,), lambda n: self.sibling(n, "lazy"), ""),
            ("latency", whole, (2,), lambda n: self.latency(20e6), ""),
            ("warm", whole, (2,), lambda n: self.latency(0.0), ""),
        ]
        for what in ("sleeping loop", "sleeping tree"):
            if (what, 1) in self.measured:
                threads = tuple(sorted(n for name, n in self.measured if name == what))
                simulate = lambda n, what=what: self.sleeping(what, n)  # noqa: E731
                table.append((what, whole, threads, simulate, "mean of runs"))
        return [
            compare(what, unit, n, simulate(n), self.measured.get((what, n)), note)
            for what, unit, threads, simulate, note in table
            for n in threads
        ]


def compare(
    what: str, unit: str, threads: int, simulated: float, found: Row | None, note: str
) -> Row:
    value: float | None = None
    if found is not None:
        # The time that was taken is that of a whole tree; what its forks add, the difference of
        # two such times, may be small beside either.
        value = float(found["ns_mean"] if "ns_mean" in found else found["ns_min"])
        if "plain_ns_min" in found:
            value = float(found.get("total_ns_min", value + found["plain_ns_min"]))
    ratio = simulated / value if value else None
    return {
        "what": "validation",
        "row": what,
        "threads": threads,
        "unit": unit,
        "kind": "input" if threads == 1 else "predicted",
        "simulated": round(simulated, 3),
        "measured": value if value is None else round(value, 3),
        "ratio": ratio if ratio is None else round(ratio, 4),
        "within": None if ratio is None else abs(ratio - 1) <= WITHIN,
        "file": found["file"] if found else None,
        "note": note,
    }
