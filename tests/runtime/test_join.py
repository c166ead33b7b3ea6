"""Fork and join through the cimport API."""

import itertools
import os

import pytest

import pyblitz as pb

SIZES = [1, 2, 3, 8, 64]
CROWDS = [*SIZES, 256, 1000]  # of threads, on however few CPUs


def slow_fib(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@pytest.mark.parametrize("threads", SIZES)
def test_smoke(native, pool_size, threads):
    pool_size(threads)
    assert native.capi.fib(20) == slow_fib(20)


@pytest.mark.parametrize("threads", CROWDS)
def test_stress(native, running_pool, crowd, threads):
    """Many callers at once, over and over."""
    running_pool(threads)

    def caller(k):
        return [native.capi.fib(5 + (i + k) % 18) for i in range(36)]

    for k, values in enumerate(crowd(*[lambda k=k: caller(k) for k in range(8)])):
        assert values == [slow_fib(5 + (i + k) % 18) for i in range(36)]


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("mirrored", [False, True])
def test_deep_nesting(native, pool_size, crowd, threads, mirrored):
    pool_size(threads)
    # AddressSanitizer's frames are several times as large.
    depth = 1_000 if os.environ.get("PYBLITZ_BUILD") == "address" else 10_000
    assert crowd(*[lambda: native.capi.deep(depth, mirrored)] * 3) == [2 * depth + 1] * 3


@pytest.mark.parametrize("python", [False, True])
@pytest.mark.parametrize(
    ("a", "b", "alone", "both"),
    [(0, 0, 0, 0), (5, 0, 5, 5), (0, 6, 6, 6), (5, 6, 5, 5)],
)
def test_failures(native, pool_size, python, a, b, alone, both):
    """The first in order wins, whichever was first in time."""
    sign = -1 if python else 1
    pool_size(1)
    # Alone, b does not begin after a has failed.
    ran = 1 if a else 3
    assert native.capi.join_failing(a, b, python, False) == (sign * alone, ran)
    pool_size(2)
    for _ in range(50):
        assert native.capi.join_failing(a, b, python, True) == (sign * both, 3)


def test_what_a_join_returns_when_python_runs_in_it(native, pool_size):
    pool_size(2)
    assert native.capi.call_join(lambda: None, lambda: 4) == 4
    with pytest.raises(ZeroDivisionError) as caught:
        native.capi.call_join(lambda: 1 / 0, lambda: None)
    assert caught.traceback[-1].name == "<lambda>"


@pytest.mark.parametrize("how", ["join", "for", "scope"])
@pytest.mark.parametrize("threads", [2, 3, 8])
def test_nothing_unrelated_runs_in_a_wait(native, pool_size, crowd, threads, how):
    """In whatever node of its tree a thread waits, it begins only nodes below that one."""
    pool_size(threads)
    depth = 7

    def caller(root):
        return [native.capi.tree(root, depth, how) for _ in range(200)]

    trees = crowd(*[lambda r=r: caller(r) for r in range(1, 7)])
    results = list(itertools.chain.from_iterable(trees))
    assert {nodes for nodes, _, _ in results} == {2 ** (depth + 1) - 1}
    assert sum(intruders for _, intruders, _ in results) == 0
    assert sum(moved for _, _, moved in results) > 0, "something was stolen"


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_nothing_runs_under_a_lock_held_across_join(native, pool_size, crowd, threads):
    """One waits in a join for a stolen half, which ends only after a flood of other work."""
    pool_size(threads)
    flood, until = native.capi.Tally(), 20_000
    intruders, *_ = crowd(
        lambda: native.capi.hold(flood, until),
        *[lambda: native.capi.flood(flood, until)] * 3,
    )
    assert intruders == 0
    assert flood.value >= until


def test_inside_another_pool(native, pool_size):
    pool_size(2)
    with pb.ThreadPool(3) as pool:
        assert pool.install(native.capi.inside) == (3, 2, True)
        assert pool.install(native.capi.fib, 18) == slow_fib(18)
    assert native.capi.inside() == (2, 1, True)
