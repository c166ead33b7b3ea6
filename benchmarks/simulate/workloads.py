"""What the simulated pool is given to do.

Each workload is a root for the guest to run, how many items it must have run in the end, and how
long its work would take without a scheduler.  Irregular shapes come from a hash of their place in
the whole, so that they are the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulate.engine import Bridge, Program, Scope, Sim, Worker

Root = Callable[[Sim, Worker], Program]


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    root: Root
    items: int
    work: float  # ns, without forks
    span: float  # ns, of the longest chain of it
    note: str = ""


def mixed(*keys: int) -> float:
    """A number in [0, 1) that depends on the keys only (splitmix64)."""
    x = 0x9E3779B97F4A7C15
    for key in keys:
        x = (x ^ key) + 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        x = (x ^ x >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 31
    return x / 2**64


# ---- one big map ----------------------------------------------------------------


def big_map(n: int = 16_384, leaf: float = 50_000.0) -> Workload:
    """``n`` blocks of equal length, as an array operation has them."""

    def root(sim: Sim, w: Worker) -> Program:
        yield sim.bridge(w, Bridge(lambda w, lo, hi: leaf * (hi - lo), 1), n)

    return Workload("big map", "one big map", root, n, n * leaf, leaf)


def streamed_map(n: int = 16_384, leaf: float = 50_000.0) -> Workload:
    """The same, bound by memory: a leaf moves what one core can move in its time."""

    def root(sim: Sim, w: Worker) -> Program:
        size = leaf * sim.costs.core_bandwidth

        def run(w: Worker, lo: int, hi: int) -> Program:
            yield sim.stream(w, 0.0, size * (hi - lo))
            sim.ran(lo, hi)

        yield sim.bridge(w, Bridge(run, 1), n)

    return Workload("streamed map", "the same, memory bound", root, n, n * leaf, leaf)


# ---- trees of joins -------------------------------------------------------------


def tree(
    nodes: int = 4_000_000,
    node: float = 100.0,
    block: int = 400,
    shape: int = 0,
    split: Callable[[int, int], float] | None = None,
) -> Workload:
    """A binary tree with a join in each inner node and ``node`` ns of work in all nodes.  Of a
    node's descendants, a share ``split`` is on the left: by default between 0 and 1, mostly
    little.  Subtrees of at most ``block`` nodes are simulated as one block, with the cost of
    their forks, that only beats interrupt."""

    def default(lo: int, size: int) -> float:
        return mixed(lo, size, shape) ** 2

    share = split or default

    def subtree(sim: Sim, w: Worker, lo: int, size: int) -> Program:
        forks = (size - 1) // 2
        if size <= block:
            w.work += size * node
            yield sim.block(w, size * node + sim.forks_ns(w, forks))
            sim.ran(lo, lo + size)
            return
        w.work += node
        w.debt += node
        sim.ran(lo, lo + 1)
        # Sizes stay odd, as those of full binary trees are.
        left = 1 + 2 * min(int(share(lo, size) * forks), forks - 1)
        yield sim.join(
            w,
            lambda w: subtree(sim, w, lo + 1, left),
            lambda w: subtree(sim, w, lo + 1 + left, size - 1 - left),
        )

    nodes |= 1

    def root(sim: Sim, w: Worker) -> Program:
        yield subtree(sim, w, 0, nodes)

    def depth(lo: int, size: int) -> float:
        """Of the path into the larger part, down to a block."""
        levels = 0
        while size > block:
            left = 1 + 2 * min(int(share(lo, size) * ((size - 1) // 2)), (size - 1) // 2 - 1)
            levels += 1
            lo, size = (lo + 1, left) if 2 * left > size else (lo + 1 + left, size - 1 - left)
        return levels * node + block * node

    note = f"subtrees of at most {block} nodes are one block"
    return Workload(
        "unbalanced tree", "unbalanced tree", root, nodes, nodes * node, depth(0, nodes), note
    )


def half(lo: int, size: int) -> float:
    return 0.5


def fibonacci(n: int, call: float, block: int) -> Workload:
    """fib(n) by two calls joined; fib(block) and below are one block."""
    calls = [1, 1]
    for _ in range(n - 1):
        calls.append(calls[-1] + calls[-2] + 1)

    def fib(sim: Sim, w: Worker, lo: int, n: int) -> Program:
        if n <= block:
            w.work += calls[n] * call
            # A call that forks makes two others; half of all calls fork.
            yield sim.block(w, calls[n] * call + sim.forks_ns(w, calls[n] // 2))
            sim.ran(lo, lo + calls[n])
            return
        w.work += call
        w.debt += call
        sim.ran(lo, lo + 1)
        yield sim.join(
            w,
            lambda w: fib(sim, w, lo + 1, n - 1),
            lambda w: fib(sim, w, lo + 1 + calls[n - 1], n - 2),
        )

    def root(sim: Sim, w: Worker) -> Program:
        yield fib(sim, w, 0, n)

    work = calls[n] * call
    return Workload("fib", f"fib({n})", root, calls[n], work, n * call, f"fib({block}): one block")


# ---- many small calls -----------------------------------------------------------


def small_calls(
    calls: int = 40, item: float = 500.0, gap: float = 2_000.0, seed: int = 0
) -> Workload:
    """One call after the other, of 10 us to 1 ms of work, with a little between them."""
    sizes = [int(10_000 * 100 ** mixed(i, seed) / item) for i in range(calls)]

    def root(sim: Sim, w: Worker) -> Program:
        first = 0
        for n in sizes:
            offset = first

            def leaf(w: Worker, lo: int, hi: int, offset: int = offset) -> Program:
                w.work += item * (hi - lo)
                yield item * (hi - lo)
                sim.ran(offset + lo, offset + hi)

            yield sim.bridge(w, Bridge(leaf, 0), n)
            w.work += gap
            yield gap
            first += n

    work = sum(sizes) * item + calls * gap
    span = calls * (gap + item)
    return Workload("small calls", "many small calls", root, sum(sizes), work, span)


# ---- tasks ----------------------------------------------------------------------


def spawns(n: int = 8_192, children: int = 3, task: float = 10_000.0, block: int = 1) -> Workload:
    """A batch of tasks, each of which spawns more, one by one."""

    def root(sim: Sim, w: Worker) -> Program:
        scope = Scope(w)

        def item(w: Worker, lo: int, hi: int) -> Program:
            for i in range(lo, hi):
                w.work += task
                yield task
                at = i * (children + 1)
                sim.ran(at, at + 1)
                for k in range(1, children + 1):

                    def child(w: Worker, at: int = at + k) -> Program:
                        w.work += task
                        yield task
                        sim.ran(at, at + 1)

                    sim.spawn(w, scope, child)

        sim.spawn_many(w, scope, n, item, block)
        yield sim.scope_end(w, scope)

    items = n * (children + 1)
    return Workload("spawns", "spawn-heavy", root, items, items * task, 2 * task)


def batch(n: int, task: float, block: int) -> Workload:
    """spawn_many alone."""

    def root(sim: Sim, w: Worker) -> Program:
        scope = Scope(w)

        def item(w: Worker, lo: int, hi: int) -> Program:
            w.work += task * (hi - lo)
            yield task * (hi - lo)
            sim.ran(lo, hi)

        sim.spawn_many(w, scope, n, item, block)
        yield sim.scope_end(w, scope)

    note = f"pieces of at most {block} tasks are one block"
    return Workload("batch", "spawn_many", root, n, n * task, task, note)


# ---- deep nesting ---------------------------------------------------------------


def nested(width: int = 5, depth: int = 6, leaf: float = 40_000.0) -> Workload:
    """A parallel loop in a parallel loop in a parallel loop."""

    def level(sim: Sim, w: Worker, first: int, depth: int) -> Program:
        below = width ** (depth - 1)

        def body(w: Worker, lo: int, hi: int) -> Program:
            at = first + lo * below
            if depth == 1:
                w.work += leaf
                yield leaf
                sim.ran(at, at + 1)
            else:
                yield level(sim, w, at, depth - 1)

        yield sim.bridge(w, Bridge(body, 1), width)

    def root(sim: Sim, w: Worker) -> Program:
        yield level(sim, w, 0, depth)

    n = width**depth
    return Workload("nested", "deep nesting", root, n, n * leaf, leaf)


# ---- all ------------------------------------------------------------------------

# By a seed, which gives trees and calls another shape.
FIVE: dict[str, Callable[[int], Workload]] = {
    "big map": lambda seed: big_map(),
    "unbalanced tree": lambda seed: tree(shape=seed),
    "small calls": lambda seed: small_calls(seed=seed),
    "spawns": lambda seed: spawns(),
    "nested": lambda seed: nested(),
}
# Beside them in the table: what bandwidth does to the first.
MORE: dict[str, Callable[[int], Workload]] = {"streamed map": lambda seed: streamed_map()}
