"""Whoever waits lets go of the GIL, and runs nothing unrelated under its caller's locks."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pyblitz as pb

ITEM = np.zeros((), "V524288")  # beside it, each element is a block
NUMBERS = np.arange(262_144, dtype=">i4").reshape(512, 512)  # sliced
TOTAL = int(NUMBERS.sum())
DEPTH, FAN = 5, 3


def each(f, n):
    """[f(0), ..., f(n - 1)], shared item by item."""
    items = np.broadcast_to(ITEM, n)
    return pb.par_map(lambda ks, _: np.array([f(int(k)) for k in ks]), np.arange(n), items)


class Tree:
    """Operations in callables in operations ..., with a lock of its level around each.

    A thread takes the locks in the order of the levels, so the callers alone never block
    each other for ever.  They would if a wait held the GIL, or ran a block of a higher level:
    its lock is held by this very thread, or by one that waits for it."""

    def __init__(self, pools, make_lock):
        self.pools = pools
        self.locks = [[make_lock() for _ in range(4)] for _ in range(DEPTH + 1)]

    def expected(self, level, k):
        if level == 0:
            return TOTAL + k
        return sum(self.expected(level - 1, FAN * k + i) for i in range(FAN))

    def run(self, level, k):
        if level == 0:
            axis = (None, 0, 1)[k % 3]
            return int(np.sum(pb.par_reduce(np.add, NUMBERS, axis=axis, dtype="i8"))) + k

        def block(i):
            with self.locks[level][(k + i) % 4]:
                return self.run(level - 1, FAN * k + i)

        pool = self.pools[(level + k) % len(self.pools)]
        return int((each(block, FAN) if pool is None else pool.install(each, block, FAN)).sum())


@pytest.mark.parametrize("make_lock", [threading.Lock, threading.RLock])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_nested(threads, make_lock, running_pool, crowd):
    running_pool(threads)
    with pb.ThreadPool(threads) as a, pb.ThreadPool(2) as b:
        tree = Tree([None, a, None, b], make_lock)
        outermost = [threading.Lock() for _ in range(3)]

        def caller(c):
            with outermost[c % 3]:
                if c % 2:
                    return tree.run(DEPTH, c)
                return (a if c % 4 else b).submit(tree.run, DEPTH, c).result()

        results = crowd(*[lambda c=c: caller(c) for c in range(8)])
    assert results == [tree.expected(DEPTH, c) for c in range(8)]


# ---- callables that block -----------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_operations_that_wait_for_each_other(threads, running_pool, crowd):
    """By turns: step s of one waits for step s - 1 of the other."""
    running_pool(threads)
    done = [threading.Event() for _ in range(12)]

    def steps(first):
        def step(i):
            s = 2 * i + first
            assert s == 0 or done[s - 1].wait(60)
            done[s].set()
            return s

        return each(step, 6).tolist()

    assert crowd(lambda: steps(0), lambda: steps(1)) == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_all_threads_of_the_pool_blocked(threads):
    """Then a caller's operation still runs, in the caller; here it releases them."""
    go = threading.Event()
    with pb.ThreadPool(threads) as pool:
        here = threading.Barrier(threads)
        jobs = [pool.submit(lambda: (here.wait(60), go.wait(60))[1]) for _ in range(threads - 1)]
        here.wait(60)

        def block(i):
            if i == 5:
                go.set()
            return i * pool.install(pb.num_threads)

        assert pool.install(each, block, 6).tolist() == [i * threads for i in range(6)]
        assert all(job.result() for job in jobs)


@pytest.mark.parametrize("threads", [2, 4])
def test_waits_for_what_was_stolen(threads):
    """The caller waits, without the GIL, for a block that ends only when a Python thread of
    its own has run an operation."""
    caller, stolen = threading.get_ident(), 0

    def block(i):
        if threading.get_ident() == caller:
            np.sin(NUMBERS)  # long enough for others to be called in
            return i
        nonlocal stolen
        stolen += 1
        results = []
        outsider = threading.Thread(target=lambda: results.append(each(lambda k: k, 3).sum()))
        outsider.start()
        outsider.join()
        return i + results[0] - 3

    with pb.ThreadPool(threads) as pool:
        while stolen < 30:
            assert pool.install(each, block, 8).tolist() == list(range(8))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_pools_that_live_in_a_callable(threads, running_pool):
    """They are made, used, closed and forgotten while other blocks want the GIL; the global
    pool is replaced meanwhile."""
    running_pool(threads)

    def block(i):
        with pb.ThreadPool(1 + i % 3) as pool:
            jobs = [pool.submit(each, lambda k: i * k, 3), pool.submit(pow, i, 2, affinity=i)]
        pb.ThreadPool(2).submit(len, ())
        pb.set_num_threads(threads)
        return int(jobs[0].result().sum()) + jobs[1].result()

    for _ in range(5):
        assert each(block, 9).tolist() == [3 * i + i * i for i in range(9)]
