"""par_bincount, par_histogram, par_searchsorted and par_digitize are NumPy's."""

from __future__ import annotations

import array
import re

import numpy as np
import pytest
from arrays import arrays, values
from hypothesis import given, settings
from hypothesis import strategies as st
from test_map import outcome

import pyblitz as pb
from pyblitz.kernels.simd import levels

RNG = np.random.default_rng(5)


def check(ours, numpys, *args, rtol=0, **options):
    got, warned = outcome(lambda: ours(*args, **options))
    expected, should = outcome(lambda: numpys(*args, **options))
    if isinstance(expected, tuple) and isinstance(expected[0], type):
        assert isinstance(got, tuple)
        assert got[0] is expected[0]
        return
    if not isinstance(expected, tuple):
        got, expected = (got,), (expected,)
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert type(g) is type(e)
        if rtol and np.asarray(e).dtype.kind in "fc":
            assert g.dtype == e.dtype
            np.testing.assert_allclose(g, e, rtol=rtol, atol=rtol)
        else:
            np.testing.assert_array_equal(g, e, strict=True)
    assert warned == should


# ---- bincount ---------------------------------------------------------------


def bincount(*args, **options):
    check(pb.par_bincount, np.bincount, *args, rtol=1e-12, **options)


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", "f8"]
)
@pytest.mark.parametrize("bins", [1, 2, 100, 1000, 1025, 40_000])
@pytest.mark.parametrize("n", [0, 100, 5_000, 40_001, 300_000])
def test_bincount(dtype, bins, n):
    d = np.dtype(dtype)
    top = 2 if d.kind == "b" else min(bins, np.iinfo(d).max + 1) if d.kind in "iu" else bins
    x = RNG.integers(0, top, n).astype(dtype)
    bincount(x)
    bincount(x, minlength=777)
    bincount(x, RNG.random(n))
    bincount(x, RNG.integers(0, 9, n), 5)
    wide = np.zeros(2 * n, d)
    wide[::2] = x
    bincount(wide[::2], RNG.random(2 * n)[::2])


def test_bincount_of_numbers_that_a_sample_does_not_show():
    x = np.zeros(1_000_000, int)
    for at in (1, 500_001, 999_999):
        for value in (1, 1000, 100_000, 3_000_000, -1, -(2**62)):
            y = x.copy()
            y[at] = value
            bincount(y)
            bincount(y, np.ones(x.size))


@pytest.mark.parametrize("bins", [9_000, 16_384, 40_000, 65_536, 140_000, 300_000])
def test_bincount_of_few_items_for_each_bin(bins):
    """Counted in one table, as NumPy does: sums of weights, too, have its bits."""
    x = RNG.integers(0, bins, 65_536)
    for huge in (2**60, 2**63, 2**70):
        with pytest.raises((ValueError, OverflowError)) as theirs:
            np.bincount(x, minlength=huge)
        with pytest.raises(theirs.type, match=re.escape(str(theirs.value))):
            pb.par_bincount(x, minlength=huge)
    weights = RNG.standard_normal(x.size)
    for y in (x, x.astype("i4"), x // 2, np.full(x.size, bins)):
        bincount(y)
        bincount(y, minlength=bins + 77)
        got = pb.par_bincount(y, weights)
        np.testing.assert_allclose(got, np.bincount(y, weights), rtol=1e-12, atol=1e-12)
        if y.max() > x.size // 2:
            assert got.tobytes() == np.bincount(y, weights).tobytes()
        assert got.flags.owndata


def test_bincount_length_comes_from_the_numbers_not_from_their_weights():
    x = RNG.integers(0, 50, 200_000)
    bincount(x, np.where(x > 40, 0.0, 1.0))
    bincount(x, np.where(x > 40, np.nan, 1.0))


def test_same_bits_for_any_number_of_threads(pool_size):
    n = 1_000_000
    w = RNG.standard_normal(n) * 1e3
    a = RNG.standard_normal(n)
    for bins in (3, 1000, 20_000):
        x = RNG.integers(0, bins, n)
        bits = set()
        for threads in (1, 2, 3, 8):
            pool_size(threads)
            for _ in range(3):
                bits.add(
                    pb.par_bincount(x, w).tobytes()
                    + pb.par_histogram(a, bins, weights=w)[0].tobytes()
                )
        assert len(bits) == 1


LONG = np.arange(100_000)


@pytest.mark.parametrize(
    "args",
    [
        (LONG - 1,),
        (LONG * 1.0,),
        (LONG.reshape(100, -1),),
        (LONG % 5, LONG[:5]),
        (LONG % 5, LONG * 1j),
        (LONG % 5, None, -1),
        (LONG % 5, None, 1.5),
        (LONG % 5, None, "x"),
        (LONG.astype("u8"),),
        (LONG.astype("M8[s]"),),
        (LONG.astype(object),),
    ],
)
def test_bincount_bad_input(args):
    before = args[0].copy()
    bincount(*args)
    np.testing.assert_array_equal(args[0], before)


# ---- histogram --------------------------------------------------------------


def histogram(*args, **options):
    rtol = 1e-11 if options.get("weights") is not None else 0
    check(pb.par_histogram, np.histogram, *args, rtol=rtol, **options)


EDGES = [
    [0, 1],
    [-1.5, -1.5, 0, 2, 2],
    [0, 0, 0],
    np.linspace(-3, 3, 1001),
    np.linspace(-3, 3, 11, dtype="f4"),
    np.arange(-5, 5),
    [-np.inf, 0, np.inf],
    [0, np.nan],
    [5],
    [],
    [2, 1],
    np.arange(-5, 5, dtype="i1"),
]


@settings(max_examples=120)
@given(
    arrays(dtypes=("i1", "u1", "i2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">f8")), st.data()
)
def test_histogram(a, data):
    bins = data.draw(st.sampled_from([1, 2, 10, 333, 5000]))
    limits = data.draw(
        st.sampled_from([None, (-1, 1), (0.0, 2.5), (0.1, 0.7), (3, 3), (-1e9, 1e9)])
    )
    density = data.draw(st.booleans())
    histogram(a, bins, limits, density)
    histogram(a, EDGES[data.draw(st.integers(0, len(EDGES) - 1))], density=density)
    with np.errstate(all="ignore"):
        finite = np.where(np.isfinite(a), a, 1).astype(a.dtype)
    histogram(finite, bins, density=density)


def test_nothing_to_count():
    """Also of what is no array of NumPy's, or beside it."""
    for x in ([], array.array("l"), array.array("d"), np.empty(0, int), np.empty((0, 3))):
        bincount(x)
        bincount(x, [])
        bincount(x, minlength=4)
        bincount(x, [1])
        for bins in (10, 3, "auto", [0, 1, 2.5]):
            histogram(x, bins)
            histogram(x, bins, weights=[])
            histogram(x, bins, (1, 2), density=True)
        assert outcome(lambda x=x: pb.par_minmax(x))[0][0] is ValueError


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "i4", "i8"])
@pytest.mark.parametrize("bins", [1, 3, 10, 49, 1000, 4096])
def test_histogram_of_values_on_the_edges(dtype, bins):
    for lo, hi in ((0.0, 1.0), (-0.1, 0.3), (1000.1, 1000.7), (-5.0, 1e6), (0, bins)):
        edges = np.linspace(lo, hi, bins + 1)
        a = np.concatenate([edges, np.nextafter(edges, -9e9), np.nextafter(edges, 9e9)])
        a = np.resize(a, 60_000).astype(dtype)
        histogram(a, bins)
        histogram(a, bins, (lo, hi))
        histogram(a, edges)
        histogram(a, bins, (np.float32(lo), np.float32(hi)))


@pytest.mark.parametrize("level", levels.names())
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("bins", [1, 3, 10, 49, 1000, 4096])
def test_histogram_of_a_few_values_on_the_edges(bins, dtype, level, simd_level):
    """Most chunks of 1,024 have one or none, and no other item is near an edge of its bin."""
    simd_level(level)
    for lo, hi in ((0.0, 1.0), (-0.1, 0.3), (1000.1, 1000.7), (-5.0, 1e6)):
        edges = np.histogram_bin_edges(np.empty(0, dtype), bins, (lo, hi)).astype(dtype)
        few = np.concatenate([edges, np.nextafter(edges, -9e9), np.nextafter(edges, 9e9)])
        out = np.array([np.inf, -np.inf, np.nan, lo - 1, hi + 1], dtype)
        a = (lo + (np.arange(65_533) % bins + 0.5) * ((hi - lo) / bins)).astype(dtype)
        rare = np.append(np.arange(7, a.size, 1511), a.size - 1)
        for _ in range(3):
            a[rare] = RNG.permutation(np.append(out, RNG.choice(few, rare.size - out.size)))
            a[-1] = edges[RNG.integers(1, bins + 1)]
            histogram(a, bins, (lo, hi))
        histogram(RNG.standard_normal(65_533).astype(dtype), bins, (lo, hi))


@pytest.mark.parametrize("name", ["auto", "sturges", "sqrt", "fd"])
def test_histogram_of_named_bins(name):
    a = RNG.standard_normal(50_000)
    histogram(a, name)
    histogram(a, name, (-1.0, 2.0))
    histogram((a * 100).astype(int), name)
    histogram(a, name, weights=a)


def test_histogram_weights():
    a = RNG.standard_normal(100_000)
    for w in (RNG.random(a.size), np.ones(a.size, int), RNG.random(a.size) * 1j, a > 0):
        for density in (False, True):
            histogram(a, 50, weights=w, density=density)
            histogram(a, np.linspace(-2, 2, 30), weights=w, density=density)
    histogram(a.reshape(100, -1), 7, weights=RNG.random((100, 1000)))


def test_histogram_great_numbers():
    n = 40_000
    for a in (
        RNG.integers(-(2**63), 2**63 - 1, n),
        RNG.integers(2**62, 2**62 + 100, n),
        RNG.integers(2**63, 2**64 - 1, n, dtype="u8"),
        RNG.standard_normal(n) * 1e300,
        RNG.standard_normal(n) * 1e-300,
        1e9 + RNG.standard_normal(n) * 1e-6,
        np.full(n, 7.5),
        np.full(n, 7),
        np.full(n, 2**53 + 1),
    ):
        for bins in (10, 1000, [2**53, 2**53 + 1], [0, 5, 2**62]):
            histogram(a, bins)
        histogram(a, 10, (0, 2**62 + 50))
        histogram(a, 10, (0, 100))


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_histogram_of_integers_that_are_no_doubles(dtype):
    """NumPy compares them with its edges as doubles, but finds the outer ones as they are."""
    n = 40_000
    for low, high in ((2**53, 2**62), (2**61, 2**61 + 10**6), (0, 2**63 - 1), (-(2**63), 2**62)):
        if low < 0 and dtype == "u8":
            low, high = 2**62, 2**64 - 1
        a = RNG.integers(low, high, n, dtype, endpoint=True)
        a[:2] = low, high
        for bins in (1, 3, 10, 1000):
            edges = np.histogram_bin_edges(a, bins)[1:-1].astype(dtype)
            b = a.copy()
            b[100 : 100 + edges.size] = edges
            b[5000 : 5000 + edges.size] = edges - 1
            histogram(b, bins)
            histogram(b, bins, weights=np.ones(n, "i4"))


@pytest.mark.parametrize(
    "args",
    [
        (10, (2, 1)),
        (10, (0, np.inf)),
        (10, (np.nan, 1)),
        (10, (1,)),
        (10, 5),
        (0,),
        (-1,),
        (1.5,),
        ("no such",),
        ([[1, 2]],),
        ([3, 1],),
        (10, None, None, np.ones(3)),
        (10, ("a", "b")),
    ],
)
def test_histogram_bad_input(args):
    histogram(RNG.standard_normal(50_000), *args)
    for bad in (np.nan, np.inf, -np.inf):
        a = RNG.standard_normal(50_000)
        a[777] = bad
        histogram(a, *args)
        histogram(a, 10)
        histogram(a, 10, (-1, 1))
        histogram(a, [-1, 0, np.inf])


# ---- searchsorted -----------------------------------------------------------

KEYS = [
    "i1",
    "i4",
    "u4",
    "i8",
    "u8",
    "f2",
    "f4",
    "f8",
    ">f8",
    "D",
    "M8[s]",
    "m8[ns]",
    "S7",
    "U3",
    "?",
]


@settings(max_examples=150)
@given(
    st.sampled_from(KEYS),
    st.sampled_from([0, 1, 2, 3, 17, 1000, 40_001]),
    st.sampled_from(["left", "right"]),
    st.booleans(),
    st.data(),
)
def test_searchsorted(dtype, m, side, sorter, data):
    v = data.draw(arrays(dtypes=(dtype,)))
    a = values(dtype, (m,), data.draw(st.integers(0, 99)))
    if sorter:
        check(pb.par_searchsorted, np.searchsorted, a, v, side, np.argsort(a))
    else:
        check(pb.par_searchsorted, np.searchsorted, np.sort(a), v, side)


@pytest.mark.parametrize("a", ["i4", "u8", "i8", "f4", "f8", "i1"])
@pytest.mark.parametrize("v", ["i4", "u8", "i8", "f4", "f8", "u1"])
def test_searchsorted_mixed(a, v):
    for side in ("left", "right"):
        check(
            pb.par_searchsorted,
            np.searchsorted,
            np.sort(values(a, (5000,), 1)),
            values(v, (30_000,), 2),
            side,
        )


def test_searchsorted_takes_the_sorters_that_numpy_takes():
    a, v = np.sort(values("f8", (5000,), 1)), values("f8", (30_000,), 2)
    for dtype in ("u4", "i2", "u8", "f8", "?"):
        check(pb.par_searchsorted, np.searchsorted, a, v, "left", np.arange(5000).astype(dtype))


def test_searchsorted_each_number_of_threads(pool_size):
    for dtype in ("i4", "i8", "f4", "f8"):
        a = np.sort(values(dtype, (1_000_003,), 1))
        v = values(dtype, (100_001,), 2)
        expected = np.searchsorted(a, v, "right")
        for threads in (1, 2, 3, 8):
            pool_size(threads)
            np.testing.assert_array_equal(pb.par_searchsorted(a, v, "right"), expected, strict=True)


SORTED = np.arange(10.0)
MANY = np.linspace(-1, 11, 50_000)


@pytest.mark.parametrize(
    "args",
    [
        (SORTED.reshape(2, 5), MANY),
        (SORTED, MANY, "middle"),
        (SORTED, MANY, "l"),
        (SORTED, MANY, "Left"),
        (SORTED, MANY, None),
        (SORTED, MANY, 3),
        (SORTED, MANY, "left", np.arange(9)),
        (SORTED, MANY, "left", np.arange(10.0)),
        (SORTED, MANY, "left", np.arange(1, 11)),
        (SORTED, MANY, "left", np.arange(10) - 1),
        (SORTED, MANY, "left", np.arange(10, dtype="i2")),
        (SORTED, MANY, "left", list(range(10))),
        (SORTED, MANY.astype("U")),
        (SORTED, MANY.astype(object)),
        (SORTED.astype("M8[s]"), MANY),
        (5, MANY),
        (list(range(10)), MANY),
    ],
)
def test_searchsorted_bad_and_unusual_input(args):
    check(pb.par_searchsorted, np.searchsorted, *args)


# ---- digitize ---------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "i4", "i8", "u8", "f2", "f4", "f8", "D", "M8[s]", "U3"]
)
@pytest.mark.parametrize("right", [False, True])
def test_digitize(dtype, right):
    for x in (
        values(dtype, (50_000,), 1),
        values(dtype, (5, 7), 1),
        values(dtype, (200, 100), 2).T,
    ):
        for bins in (
            [0.0, 1.0, 2.5],
            np.array([2.5, 1.0, 1.0, 0.0, -3]),
            np.arange(-10, 10),
            np.arange(10, -10, -1),
            np.arange(10, dtype="u8"),
            [3],
            [2, 2, 2],
            [],
            [1, 2, 1],
            [0, np.nan],
            [np.nan, 1, 0],
            [[1, 2]],
            5,
            "x",
            [-np.inf, 0, np.inf],
            np.array([1j, 2]),
        ):
            check(pb.par_digitize, np.digitize, x, bins, right)


def test_searchsorted_in_strings_of_variable_width():
    """NumPy 2.4.6 by itself compares bytes that it has not copied."""
    rng = np.random.default_rng(0)
    for n in (4, 5000):
        words = np.array([f"/a/long/path/of/a/file/{i}" for i in rng.permutation(n)])
        text = words.astype(np.dtypes.StringDType())
        expected = np.searchsorted(np.sort(words), words)
        assert np.array_equal(pb.par_searchsorted(pb.par_sort(text), text), expected)


# ---- what is shared ---------------------------------------------------------


def shared(ours, *args, **options):
    totals = []
    ours(*args, **options, progress=lambda done, total: totals.append(total))
    assert totals
    assert totals[-1] > 0


N = 100_000
BINS = RNG.integers(0, 50, N)


@pytest.mark.parametrize("dtype", ["?", "i2", "u8", "f2", "f4", "f8", ">f8", ">i4"])
def test_any_weights_and_layout_are_shared(dtype):
    w = RNG.integers(0, 99, N).astype(dtype)
    for x in (BINS, BINS.astype(">i4"), np.repeat(BINS, 2)[::2].astype("u2")):
        for v in (w, np.repeat(w, 2)[::2]):
            bincount(x, v)
            shared(pb.par_bincount, x, v)
        bincount(x, minlength=np.int64(77))
        shared(pb.par_bincount, x, minlength=np.int64(77))
    a = RNG.standard_normal(N)
    # Sums of what is exact: NumPy adds the same numbers in narrower types.
    for weights in (w, w + 1j * w.astype("f4")) if dtype not in ("?", "f2") else (w,):
        for density in (False, True):
            if dtype != "f2":
                check(
                    pb.par_histogram,
                    np.histogram,
                    a,
                    50,
                    weights=weights,
                    density=density,
                    rtol=1e-6,
                )
            shared(pb.par_histogram, a, 50, weights=weights, density=density)
        if dtype != "?":
            shared(pb.par_histogram, a, [-1, 0, 1], weights=weights)


@pytest.mark.parametrize("dtype", [">f8", ">i4", "f2", ">f2"])
def test_any_values_are_shared(dtype):
    a = (RNG.standard_normal(N) * 9).astype(dtype)
    for b in (a, a[::2], a.reshape(100, -1).T):
        for bins in (10, [-3, 0, 1.5, 8], np.linspace(-9, 9, 40)):
            histogram(b, bins)
            shared(pb.par_histogram, b, bins)
        histogram(b, 7, (-4, 5))
        shared(pb.par_histogram, b, 7, (-4, 5))


def test_great_weights_are_numpys():
    a = RNG.standard_normal(N)
    w = RNG.integers(2**60, 2**62, N)
    for bins in (10, [-1, 0, 1]):
        histogram(a, bins, weights=w)
    histogram(a, 10, weights=w.astype("u8"))
    complex_ = np.where(a > 0, np.inf, 1) + 0j
    histogram(a, 10, weights=complex_)


def test_containers_are_counted(tmp_path):
    pd = pytest.importorskip("pandas")
    disk = np.memmap(tmp_path / "a", "i8", mode="w+", shape=(N,))
    disk[:] = BINS
    for x in (disk, pd.Series(BINS), BINS.tolist()):
        bincount(x)
        shared(pb.par_bincount, x)
        histogram(x, 10)
        shared(pb.par_histogram, x, 10)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2"])
def test_extremes_wherever_they_are(dtype):
    """Without a range the bins reach from the least item to the greatest; lengths that are no
    multiple of anything, for the last items are looked at one by one."""
    for n in (100_003, 131_079):
        for at in (0, 1, 1023, n // 2, n - 3, n - 2, n - 1):
            for extreme in (-99, 99):
                a = (np.arange(n) % 7).astype(dtype)
                a[at] = extreme
                got, expected = pb.par_histogram(a, 12), np.histogram(a, 12)
                np.testing.assert_array_equal(got[1], expected[1], strict=True)
                np.testing.assert_array_equal(got[0], expected[0], strict=True)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e308])
@pytest.mark.parametrize("at", [-5.0, 0.5, 1.5, 9.0])
@pytest.mark.parametrize("n", [100, 300_000])
def test_weights_that_are_no_numbers_between_edges(n, at, bad):
    """NumPy sums the weights up all along, and takes differences."""
    a = np.random.default_rng(0).random(n) * 3
    weights = np.ones(n)
    a[: n // 10], weights[: n // 10] = at, bad
    with np.errstate(all="ignore"):
        expected = np.histogram(a, [0, 1, 2, 3.5], weights=weights)[0]
        got = pb.par_histogram(a, [0, 1, 2, 3.5], weights=weights)[0]
    np.testing.assert_array_equal(got, expected)


def test_the_greatest_integer_is_no_bin():
    """NumPy's length is one more, which is negative, and it writes in front of its result."""
    for greatest in (2**63 - 1, 2**62):
        x = np.full(200_000, 3)
        x[5] = greatest
        with pytest.raises((ValueError, MemoryError)):
            pb.par_bincount(x)
