"""The one recursion: ranges, fixed trees, early exit, the failure that wins."""

import array
import random
import sys
import time

import pytest

import pyblitz as pb

SIZES = [1, 2, 3, 8, 64]
CROWDS = [*SIZES, 256, 1000]  # of threads, on however few CPUs


@pytest.mark.parametrize("threads", SIZES)
@pytest.mark.parametrize("grain", [0, 1, 3, 64, 10**6])
def test_smoke(native, pool_size, threads, grain):
    """Every item once, in ranges no longer than asked for."""
    pool_size(threads)
    for n in (0, 1, 2, 3, 63, 64, 65, 1000, 4097):
        rc, counts, ranges, longest = native.capi.mark_all(n, grain)
        assert rc == 0
        assert counts == [1] * n
        if grain:
            assert ranges == -(-n // grain)
            assert longest == min(n, grain)


def test_ranges_of_a_size_that_is_found_while_running_grow(native, pool_size):
    """An item takes nanoseconds, and a range some microseconds; one for each item would be
    50,000.  (The clock may stand still for a while: then a few more.)"""
    pool_size(1)
    _, counts, ranges, longest = native.capi.mark_all(50_000, 0)
    assert counts == [1] * 50_000
    assert ranges < 10_000
    assert longest >= 8


def test_bounds(native):
    assert native.capi.mark_all(-1, 0) == (0, [], 0, 0)
    assert native.capi.mark_all(10, sys.maxsize)[1:] == ([1] * 10, 1, 10)
    with pytest.raises(ValueError, match="grain must not be negative, not -1"):
        native.capi.mark_all(10, -1)
    with pytest.raises(ValueError, match="grain must not be negative, not -1"):
        native.capi.reduce_span(10, -1)


@pytest.mark.parametrize("threads", CROWDS)
def test_stress(native, running_pool, crowd, threads):
    running_pool(threads)

    def caller(k):
        for i in range(30):
            n = (i * 37 + k) % 3000
            rc, counts, _, _ = native.capi.mark_all(n, i % 4)
            assert (rc, counts) == (0, [1] * n)

    crowd(*[lambda k=k: caller(k) for k in range(8)])


@pytest.mark.parametrize("threads", SIZES)
def test_nested(native, pool_size, crowd, threads):
    pool_size(threads)
    assert crowd(*[lambda: native.capi.nest(4, 9)] * 3) == [9**4] * 3


# ---- failures ---------------------------------------------------------------


def failing(n, *at):
    return bytes(i in at for i in range(n))


@pytest.mark.parametrize("threads", SIZES)
@pytest.mark.parametrize("python", [False, True])
@pytest.mark.parametrize("grain", [0, 1, 7])
@pytest.mark.parametrize(
    "at", [[0], [499], [250], [250, 251], [3, 499], range(500)], ids=lambda at: str(at)[:12]
)
def test_the_lowest_failure_wins(native, pool_size, threads, python, grain, at):
    """Always the same one, and what is before it has run."""
    pool_size(threads)
    n, first = 500, min(at)
    for _ in range(3):
        rc, counts, _, _ = native.capi.mark_all(n, grain, failing(n, *at), python)
        if python:
            assert isinstance(rc, ValueError)
            assert rc.args == (first,)
        else:
            assert rc == 1000 + first
        assert counts[: first + 1] == [1] * (first + 1)
        assert max(counts) == 1


def test_a_failure_stops_the_rest(native, pool_size):
    pool_size(1)
    _, counts, ranges, _ = native.capi.mark_all(1000, 1, failing(1000, 4))
    assert (sum(counts), ranges) == (5, 5)


def test_errors_under_stress(native, pool_size, crowd):
    """Failing callers among others that do not fail: each gets its own."""
    pool_size(4)

    def fails(k):
        for _ in range(50):
            rc, *_ = native.capi.mark_all(400, 1, failing(400, k, 399), True)
            assert rc.args == (k,)

    def works():
        for _ in range(50):
            assert native.capi.mark_all(400, 1)[:2] == (0, [1] * 400)

    crowd(*[lambda k=k: fails(k) for k in (0, 7, 200)], works, works)


# ---- reductions -------------------------------------------------------------


def numbers(n, seed=0):
    rng = random.Random(seed)
    return array.array("d", [rng.uniform(-1, 1) * 10.0 ** rng.randint(-12, 12) for _ in range(n)])


@pytest.mark.parametrize("n", [1, 2, 1000, 1025, 50_000])
@pytest.mark.parametrize("grain", [0, 1, 100])
def test_same_bits_on_any_number_of_threads(native, pool_size, n, grain):
    x = numbers(n).tobytes()
    seen = set()
    for threads in (1, 2, 3, 8):
        pool_size(threads)
        seen |= {native.capi.reduce_sum(x, grain).hex() for _ in range(10)}
    assert len(seen) == 1


def test_the_sum_depends_on_the_order(native):
    """Otherwise the test above could not fail."""
    x = numbers(50_000)
    assert len({native.capi.reduce_sum(x.tobytes(), g).hex() for g in (1, 2, 100, 50_000)}) > 1


@pytest.mark.parametrize("threads", SIZES)
def test_neighbours_are_combined_in_order(native, pool_size, threads):
    pool_size(threads)
    for grain in (0, 1, 2, 13, 5000):
        for n in (1, 2, 3, 5, 1000, 1024, 1025, 4999):
            rc, lo, hi, longest, broken = native.capi.reduce_span(n, grain)
            assert (rc, lo, hi, broken) == (0, 0, n, False)
            assert longest == min(n, grain or -(-n // 1024))


def test_nothing_to_reduce(native):
    assert native.capi.reduce_sum(b"", 0, 2.5) == 2.5
    assert native.capi.reduce_span(0, 1) == (0, -1, -1, 0, False)


def test_every_leaf_starts_from_the_identity(native, pool_size):
    pool_size(2)
    assert native.capi.reduce_sum(array.array("d", [1.0] * 10).tobytes(), 2, 100.0) == 510.0


@pytest.mark.parametrize("less", [0, 8, 9])
def test_grain_beyond_everything(script, less):
    """n + grain - 1 is more than there are numbers: once that left no room for a result.  In
    a process of its own, whose heap it may spoil."""
    source = f"import sys, native_capi as c; print(c.reduce_span(10, sys.maxsize - {less}))"
    assert script(source) == "(0, 0, 10, 10, False)\n"


@pytest.mark.parametrize("threads", SIZES)
def test_reduction_failures(native, pool_size, threads):
    pool_size(threads)
    for _ in range(10):
        assert native.capi.reduce_span(1000, 1, leaf_at=0)[0] == 7
        assert native.capi.reduce_span(1000, 1, leaf_at=999)[0] == 7
        # 500 begins the right half of the root, whose failure counts as item 0's.
        assert native.capi.reduce_span(1000, 1, combine_at=500)[:3] == (8, -1, -1)
        assert native.capi.reduce_span(1000, 1, leaf_at=3, combine_at=999)[0] == 7


# ---- early exit -------------------------------------------------------------


@pytest.mark.parametrize("threads", SIZES)
@pytest.mark.parametrize("grain", [0, 1, 50])
def test_finds_the_first(native, pool_size, threads, grain):
    pool_size(threads)
    rng = random.Random(threads)
    n = 5000
    for hits in (1, 2, 10, 2500):
        for _ in range(2):
            at = rng.sample(range(n), hits)
            found, looked = native.runtime.find_first(failing(n, *at), grain)
            assert found == min(at)
            assert looked > found
    assert native.runtime.find_first(bytes(n), grain) == (None, n)
    assert native.runtime.find_first(b"", grain) == (None, 0)


@pytest.mark.parametrize("grain", [1, 50])
def test_alone_it_looks_no_further(native, pool_size, grain):
    pool_size(1)
    for first in (0, 1, 777, 4999):
        x = failing(5000, first, 4999)
        assert native.runtime.find_first(x, grain) == (first, first + 1)


def test_stress_early_exit(native, pool_size, crowd):
    pool_size(3)

    def caller(k):
        for i in range(200):
            first = (i * 41 + k) % 2000
            assert native.runtime.find_first(failing(2000, first, 1999), 8)[0] == first

    crowd(*[lambda k=k: caller(k) for k in range(4)])


def test_the_limit_only_sinks(native):
    assert native.runtime.limit_sinks([50, 60, 50, 7, 8, 0, 3]) == [50, 50, 50, 7, 7, 0, 0]


# ---- whom it is shared with --------------------------------------------------


def test_what_takes_long_is_shared_before_its_first_leaf(native, pool_size):
    """Where a worker is awake.  (It may be asleep again by then, or not have been given a CPU: so
    once in many times.)"""
    pool_size(2)
    shared = native.runtime.second_leaf_begins_beside_the_first
    assert any(shared(10_000) for _ in range(500))


def test_what_may_take_no_time_begins_alone(native, pool_size):
    pool_size(2)
    shared = native.runtime.second_leaf_begins_beside_the_first
    assert not any(shared(9_999) for _ in range(20))


@pytest.mark.alone
@pytest.mark.parametrize(
    ("loop", "times", "wakes"),
    [
        ((5, 12_000, 12_000, False), 1, False),
        ((5, 12_000, 12_000, False), 2, True),
        ((5, 12_000, 12_000, True), 1, True),
        ((50, 0, 100_000, False), 1, True),
    ],
    ids=["short", "short, twice", "short, beside others", "long at its end"],
)
def test_what_wakes_a_sleeper(native, pool_size, loop, times, wakes):
    """Not a loop that ends before a sleeper comes, however long its halves have waited; but the one
    right after it, what a caller left, of which nobody knows how long it takes, and items that take
    longer than the pace of the others says."""
    pool_size(2)
    calls = 200
    with pb.stats() as s:
        for _ in range(calls):
            while not native.runtime.all_sleep():
                time.sleep(0.0002)
            # Later than what counts as right after.
            time.sleep(0.0005)
            for _ in range(times):
                native.forks.loop_of_leaves(*loop)
    found = sum(w.wakes for w in s.workers)
    # Where the CPU was taken away from a leaf, the loop may take long.
    assert found > calls / 2 if wakes else found < calls / 2
