"""Searches: exact, whoever finds it, and over as soon as it is found."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from arrays import SHAPES, assert_same, values
from test_iter import layouts

import pyblitz as pb

DTYPES = ["?", "i1", "u4", "i8", "f2", "f4", "f8", "g", "D", ">f8", "M8[s]", "m8[ns]", "S7", "U3"]
SEARCHES = ["find_first", "find_last", "find_any", "position"]


def expected_of(name, a, mask):
    at = np.flatnonzero(mask)
    if len(at) == 0:
        return None
    i = at[-1] if name == "find_last" else at[0]
    return int(i) if name == "position" else a.reshape(-1)[i]


def check(a, predicate, mask):
    for name in SEARCHES:
        got = getattr(pb, "par_" + name)(a, predicate)
        expected = expected_of(name, a, mask)
        if name == "find_any" and expected is not None:
            assert got in a[mask] or (got != got and np.isnan(a[mask]).any())
            continue
        if name == "position":
            assert got == expected
        else:
            assert_same(got, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s])
def test_values(dtype, shape):
    a = values(dtype, shape, 3)
    for i in {0, a.size // 2, a.size - 1} if a.size else ():
        value = a.reshape(-1)[i]
        check(a, value, a == value)
    if a.size and a.dtype.kind in "iufc":
        check(a, 77, a == 77)


@pytest.mark.parametrize("layout", layouts())
def test_layouts(layout):
    a = layouts()[layout]
    check(a, np.isnan, np.isnan(a))
    check(a, lambda v: v > 1, a > 1)
    check(a, lambda v: np.where(v > 1, True, False), a > 1)
    check(np.concatenate([a] * 5), np.signbit, np.signbit(np.concatenate([a] * 5)))


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "f4", "f8"])
def test_items_that_are_equal_to_a_number(dtype, simd_level):
    """Found without a mask, in lines of the cache, wherever the array begins in one."""
    n = 70_000
    for skipped in (0, 1, 3, 15):
        b = np.empty(n + skipped, dtype)[skipped:]
        for hits in ([], [0], [n - 1], [17, 18, n - 20], range(40_000, 40_100)):
            b[:] = np.arange(100, n + 100)
            b[list(hits)] = 7
            check(b, 7, b == 7)
            check(b, lambda v: v == 7, b == 7)
            assert (pb.par_iter(b) == 7).any() == (b == 7).any()
    for value in (-0.0, np.nan) if dtype[0] == "f" else (-1, 2**70):
        b = np.ones(n, dtype)
        b[n // 3] = 0
        b[n // 2] = np.nan if dtype[0] == "f" else 5
        check(b, lambda v, value=value: v == value, b == value)


def test_out_of_range():
    a = np.arange(100_000, dtype="u1")
    check(a, 300, np.zeros(a.shape, bool))
    check(a, -1, np.zeros(a.shape, bool))
    check(a[:10], 300, np.zeros(10, bool))


@pytest.mark.parametrize("n", [1, 1023, 16384, 1_000_003])
def test_one_hit_anywhere(n):
    rng = np.random.default_rng(n)
    a = np.zeros(n)
    for at in {0, n - 1, *rng.integers(0, n, 20).tolist()}:
        a[at] = 5
        assert pb.par_position(a, 5) == at
        assert pb.par_find_first(a, 5) == pb.par_find_last(a, 5) == pb.par_find_any(a, 5) == 5
        a[at] = 0
    assert pb.par_position(a, 5) is None


def test_exact_under_load(pool_size, crowd):
    """Hits everywhere, threads everywhere: first is first and last is last."""
    pool_size(8)
    a = np.arange(400_000) % 1000
    first, last = 400_000 - 999 - 1000, 0

    def main(seed):
        rng = np.random.default_rng(seed)
        for _ in range(30):
            lo = int(rng.integers(0, 399_000))
            assert pb.par_position(a[lo:], lambda v: v % 500 == 7) == (7 - lo) % 500
            i, v = pb.par_iter(a[lo:]).enumerate()
            hit = len(a) - lo - 1 - (999 - 507)
            assert i.find_last(v % 500 == 7) == hit

    crowd(*[lambda seed=seed: main(seed) for seed in range(6)])
    assert first > last


def test_a_later_hit_that_is_known_later_does_not_count(pool_size):
    """Both threads have hits; that of the later items waits until the other's is all but
    known.  Which one is known first is then anybody's guess."""
    pool_size(2)
    a = np.arange(600_000)
    together = 0
    end = time.monotonic() + 30
    while together < 5 and time.monotonic() < end:
        known = threading.Event()
        late = []

        def hit(v, known=known, late=late):
            v = np.asarray(v)
            if len(v) < 1000:
                return v > 0  # it is looked at whether it is elementwise
            if v[0] == 0:
                for _ in range(20):  # long enough to be shared
                    np.sin(v)
                return v < 0
            if v[0] < 70_000:
                known.set()
            else:
                late.append(v[0])
                assert known.wait(30)
            return v > 0

        first = pb.par_position(a, hit)
        together += bool(late)
        assert first < 70_000
    assert together, "another thread took part"


def test_a_hit_ends_it():
    """What lies behind is not computed: a function that fails there is not called."""
    a = np.arange(5_000_000)
    calls = []

    def hit(v):
        v = np.asarray(v)
        calls.append(len(v))
        return v == 5

    assert pb.par_position(a, hit) == 5
    assert sum(calls) < 1_000_000
    calls.clear()
    assert pb.par_iter(a).rev().any(lambda v: hit(v) | (np.asarray(v) > 4_999_000))
    assert sum(calls) < 1_000_000


def test_stops_early_in_time():
    a = np.zeros(20_000_000, "f4")
    a[100_000] = 1

    def best(f):
        times = []
        for _ in range(7):
            t = time.perf_counter()
            f()
            times.append(time.perf_counter() - t)
        return min(times)

    assert pb.par_position(a, 1) == 100_000
    assert best(lambda: pb.par_position(a, 1)) < best(lambda: pb.par_position(a, 2)) / 5
    assert best(lambda: pb.par_any(a)) < best(lambda: pb.par_any(a[100_001:])) / 5


def test_bad_predicates():
    for n in (10, 100_000):
        a = np.arange(float(n))
        for name in SEARCHES:
            f = getattr(pb, "par_" + name)
            for bad in [lambda v: np.asarray(v)[:3], lambda v: 1 / 0]:
                with pytest.raises((ValueError, ZeroDivisionError)):
                    f(a, bad)
            with pytest.raises(TypeError):
                f(a)
            with pytest.raises(ValueError, match="shape"):
                f(a, np.zeros(3, bool))
            for bad in (np.zeros(3), np.zeros(n), [0.0] * n, [[1], [2]], None, {1}, {}, {3: 4}):
                with pytest.raises(TypeError, match="predicate: expected booleans"):
                    f(a, bad)
        assert pb.par_position(a, 3) == 3


def test_empty_and_scalar():
    for name in SEARCHES:
        f = getattr(pb, "par_" + name)
        assert f(np.empty(0), 1) is None
        assert f(np.empty((0, 5)), np.isnan) is None
        assert f([], 1) is None
        assert f([5, 7], 7) in (7, 1)
        assert f(3.0, 3) in (3.0, 0)
        assert f(np.float64(3), 4) is None


def test_objects():
    a = np.array([None, "a", 3], object)
    assert pb.par_position(a, "a") == 1
    assert pb.par_find_first(a, 3) == 3


def test_any_byte_but_0_is_true():
    a = np.zeros(300_000, np.uint8)
    a[200_000] = 255
    mask = a.view(bool)
    assert pb.par_any(mask) == np.any(mask)
    assert pb.par_iter(mask).find_first(True) is not None
    assert pb.par_count_nonzero(mask) == np.count_nonzero(mask) == 1
    assert pb.par_all(mask) == np.all(mask)


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u1", "i2", "f2", "i4", "u4", "f4", "i8", "u8", "f8", "c16", ">f8"]
)
def test_any_and_all(dtype):
    """One element is other than the rest: at both ends, in the middle, at the end of a stretch
    between two looks; or none is.  Also where elements do not lie side by side."""
    n = 400_003
    for usual, other in ((0, 1), (1, 0)):
        a = np.full(n, usual, dtype)
        for place in (None, 0, 1023, 8191, 8192, n // 2, n - 1):
            if place is not None:
                a[place] = other
            for x in (a, a[::-1], np.repeat(a, 2)[::2], a[: n - 1].reshape(2, -1)):
                assert pb.par_any(x) == np.any(x)
                assert pb.par_all(x) == np.all(x)
            a[:] = usual


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_what_is_zero_among_floats(dtype):
    zeros = np.full(400_000, -0.0, dtype)
    nans = np.full(400_000, np.nan, dtype)
    tiny = np.full(400_000, -0.0, dtype)
    tiny[-1] = np.finfo(dtype).smallest_subnormal
    for a in (zeros, nans, tiny):
        assert pb.par_any(a) == np.any(a)
        assert pb.par_all(a) == np.all(a)
    assert not pb.par_any(zeros)
    assert pb.par_all(nans)
    assert pb.par_any(tiny)


def test_masks():
    pd = pytest.importorskip("pandas")
    for shape in ((12,), (3, 4), (100_000,), (300, 400)):
        a = np.arange(float(np.prod(shape))).reshape(shape)
        mask = (a % 5 == 3) & (a > 7)
        check(a, mask, mask)
        check(a, mask.tolist(), mask)
        check(a, np.asfortranarray(mask), mask)
        if a.ndim == 1:
            check(a, pd.Series(mask), mask)
            check(a, pb.par_iter(a) % 5 == 3, a % 5 == 3)
            check(pb.par_iter(a).collect(), np.ma.array(a > 1, mask=~mask), mask)
        # What is true is not what is equal to it.
        check(mask, mask, mask)
        check(mask, True, mask)


def test_times_of_pythons():
    import datetime

    for n in (100, 100_000):
        days = np.arange(n).astype("M8[D]")
        at = datetime.date(1970, 2, 1)
        check(days, at, days == np.datetime64(at))
        spans = np.arange(n).astype("m8[h]")
        hours = datetime.timedelta(hours=50)
        check(spans, hours, spans == np.timedelta64(hours))


def test_lazy_arrays_are_searched_lazily():
    a = np.arange(1_000_000)
    seen = []

    def count(v):
        seen.append(len(np.asarray(v)))
        return np.asarray(v) * 1

    lazy = pb.par_iter(a).map(count, dtype=a.dtype)
    assert pb.par_position(lazy, 5) == 5
    assert pb.par_find_first(lazy, 7) == pb.par_find_any(lazy, 7) == 7
    assert pb.par_position(a, lazy == 5) == 5
    assert sum(seen) < 2_000_000


def test_masked_arrays_are_refused():
    for n in (10, 100_000):
        a = np.ma.array(np.arange(n), mask=np.arange(n) < 5)
        for name in SEARCHES:
            with pytest.raises(TypeError, match="masks"):
                getattr(pb, "par_" + name)(a, 3)


def test_subclasses(tmp_path):
    for n in (10, 200_000):
        a = np.memmap(tmp_path / "a", "f8", mode="w+", shape=(n,))
        a[:] = np.arange(n)
        check(np.asarray(a), 5, a == 5)
        assert pb.par_position(a, 5) == pb.par_find_first(a, 5) == 5
        assert pb.par_position(a.tolist(), 5) == 5
        assert pb.par_position(np.asmatrix(np.asarray(a)), 5) == 5
        a[0] = 0


def test_an_empty_list_is_a_mask_of_nothing():
    nothing = np.array([])
    assert pb.par_filter(nothing, []).size == 0
    assert pb.par_find_first(nothing, []) is None
    assert [part.size for part in pb.par_partition_by(nothing, [])] == [0, 0]
    for n in (3, 100_000):
        assert_same(pb.par_filter(np.ones(n), []), np.ones(n)[[]])
