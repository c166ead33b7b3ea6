"""The simulator beside what was measured.

What one thread alone pays is an input, taken from the rows with one thread; how two and more
threads come out is predicted from those.  A row is right within 15 %.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from simulate.costs import Machine, Row
from simulate.engine import Bridge, Job, Policy, Program, Sim, Worker
from simulate.workloads import Workload, batch, big_map, fibonacci, half, tree

WITHIN = 0.15
Measured = dict[tuple[str, int], Row]

# What a placeholder says until it is measured: ns of the row with one thread.
ONE_THREAD = {
    "plain": 1.945,  # two calls through a pointer, per join of the empty tree
    "fib": 120e6,
    "treesum": 6.0,
    "parallel_for": 705e3,
    "spawn_many": 15.0,
    "keyed": 100.0,
}
ITERATION = 700.0


def run(machine: Machine, threads: int, workload: Workload, policy: Policy, seed: int = 1) -> float:
    sim = Sim(machine, threads, policy, seed)
    return sim.run(lambda w: workload.root(sim, w))


class Validation:
    """Simulates each measured row."""

    def __init__(self, machine: Machine, measured: Measured) -> None:
        self.machine = machine
        self.measured = measured
        self.lazy = Policy(joins="lazy")
        self.eager = Policy(joins="eager")

    def one(self, what: str) -> float:
        """What one thread takes."""
        row = self.measured.get((what, 1))
        return float(row["ns_min"]) if row else ONE_THREAD[what]

    # ---- each row: ns, as the benchmark gives it

    def join(self, threads: int, kind: str = "join") -> float:
        """ns per join, with the plain calls of the same tree."""
        row = self.measured.get((kind, 1), {})
        joins = 2**20 - 1
        plain = float(row.get("plain_ns_min", ONE_THREAD["plain"]))
        nodes = 2 * joins + 1
        workload = tree(nodes, plain * joins / nodes, 1023, split=half)
        policy = self.eager if kind == "join" else self.lazy
        return run(self.machine, threads, workload, policy) / joins

    def join_lazy(self, threads: int) -> float:
        return self.join(threads, "join_lazy")

    def fib(self, threads: int) -> float:
        n = int(self.measured.get(("fib", 1), {}).get("n", 35))
        calls = fibonacci(n, 1.0, n - 20).items
        forks = calls // 2 * self.machine.costs.fork_lazy
        call = max(0.1, (self.one("fib") - forks) / calls)
        return run(self.machine, threads, fibonacci(n, call, n - 20), self.lazy)

    def treesum(self, threads: int) -> float:
        nodes = 10_000_001
        node = max(0.1, self.one("treesum") - self.machine.costs.fork_lazy / 2)
        return run(self.machine, threads, tree(nodes, node, 1500, split=half), self.lazy) / nodes

    def parallel_for(self, threads: int) -> float:
        """Calls back to back: the pool is awake."""
        row = self.measured.get(("parallel_for", 1), {})
        item = float(row.get("ideal_ns", ITERATION * 1000)) / 1000
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

    def spawn_many(self, threads: int) -> float:
        n = 1_000_000
        task = max(0.1, self.one("spawn_many") - self.machine.costs.task)
        return run(self.machine, threads, batch(n, task, 256), Policy()) / n

    def keyed(self, threads: int) -> float:
        """An assumption: half of a job's cost is the poster's, and jobs are handed on by 64."""
        n, some = 64 * 512, 64
        cost = self.one("keyed") * some / 2
        sim = Sim(self.machine, threads)

        def root(w: Worker) -> Program:
            jobs: list[Job] = []

            def body(w: Worker) -> Program:
                yield cost

            for _ in range(n // some):
                yield cost
                job = Job(body, w)
                jobs.append(job)
                sim.push_fork(w, job)
            for job in reversed(jobs):
                if sim.pop_fork(w, job):
                    yield cost
                else:
                    yield sim.wait(w, job)

        return sim.run(root) / n

    def latency(self, threads: int, idle: float = 20e6) -> float:
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

    def warm(self, threads: int) -> float:
        return self.latency(threads, 0.0)

    def sleeping_loop(self, threads: int) -> float:
        """Leaves that sleep need no CPU: more threads than there are CPUs."""
        return self.sleeping(threads, [big_map(256, self.one("sleeping loop") / 256)])

    def sleeping_tree(self, threads: int) -> float:
        node = self.one("sleeping tree") / 200_001
        return self.sleeping(threads, [tree(200_001, node, 100, shape) for shape in (0, 3, 6)])

    def sleeping(self, threads: int, parts: list[Workload]) -> float:
        """The mean, as of the measured runs: who steals first may matter much."""
        times = [
            run(self.machine, threads, part, self.eager, seed)
            for part in parts
            for seed in range(8)
        ]
        return statistics.mean(times)

    # ---- all

    def rows(self) -> list[Row]:
        table: list[tuple[str, str, tuple[int, ...], Callable[[int], float], str]] = [
            ("join", "ns per join and two calls", (1, 2), self.join, ""),
            ("join_lazy", "ns per join and two calls", (1, 2), self.join_lazy, ""),
            ("fib", "ns", (1, 2), self.fib, "taken for join_lazy"),
            ("treesum", "ns per node", (1, 2), self.treesum, "taken for join_lazy"),
            ("parallel_for", "ns", (1, 2), self.parallel_for, "calls back to back"),
            ("spawn_many", "ns per task", (1, 2), self.spawn_many, ""),
            ("keyed", "ns per job", (1, 2), self.keyed, "how it works is assumed"),
            ("latency", "ns", (2,), self.latency, ""),
            ("warm", "ns", (2,), self.warm, ""),
        ]
        beyond = (1, 2, 3, 4, 6, 8, 16)
        if ("sleeping loop", 1) in self.measured:
            table.append(("sleeping loop", "ns", beyond, self.sleeping_loop, "mean of runs"))
        if ("sleeping tree", 1) in self.measured:
            table.append(("sleeping tree", "ns", beyond, self.sleeping_tree, "mean of runs"))
        rows = []
        for what, unit, threads, simulate, note in table:
            for n in threads:
                found = self.measured.get((what, n))
                if n > 2 and found is None:
                    continue
                given = n == 1 and not (what == "parallel_for" and found and "ideal_ns" in found)
                rows.append(compare(what, unit, n, given, simulate(n), found, note))
        return rows


def compare(
    what: str, unit: str, threads: int, given: bool, simulated: float, found: Row | None, note: str
) -> Row:
    value: float | None = None
    if found is not None:
        value = float(found["ns_mean" if what.startswith("sleeping") else "ns_min"])
        if "join" in what:
            # The time that was taken is that of the whole tree; the difference of two times
            # may be small beside either.
            value += float(found.get("plain_ns_min", ONE_THREAD["plain"]))
    ratio = simulated / value if value else None
    return {
        "what": "validation",
        "row": what,
        "threads": threads,
        "unit": unit,
        "kind": "input" if given else "predicted",
        "simulated": round(simulated, 3),
        "measured": value if value is None else round(value, 3),
        "ratio": ratio if ratio is None else round(ratio, 4),
        "within": None if ratio is None else abs(ratio - 1) <= WITHIN,
        "file": found["file"] if found else None,
        "note": note,
    }
