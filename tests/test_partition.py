"""par_partition and par_argpartition hold to what np.partition promises; par_topk is the
beginning of a stable sort."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from arrays import SORTED, arrays, assert_same, values
from hypothesis import given, settings
from hypothesis import strategies as st

import pyblitz as pb
from pyblitz.kernels.simd import levels

# Around the thresholds: a part that NumPy ends, the least row of a split, blocks.
SIZES = [1, 2, 1000, 32768, 65535, 65536, 65537, 81_920, 131_072, 131_073, 300_000]
VECTORS = tuple((n,) for n in SIZES)
SHAPES = [(5,), (300, 301), (3, 70_000), (70_000, 3), (20, 40, 90), (2, 1, 80_000)]
SPLIT = ["i4", "u4", "i8", "u8", "f4", "f8", "M8[s]", "m8[ns]"]


pytestmark = pytest.mark.usefixtures("partitions_itself")


def test_where_vectors_are_faster_numpy_does_it(partitions_itself, simd_level, pool_size):
    """Its AVX-512; its AVX2 where there is no level of ours that is as fast."""
    a = np.random.default_rng(0).random(500_000)
    why = "one row that its vector instructions partition"
    for threads, vectors in itertools.product((1, 2), (1, 2)):
        pool_size(threads)
        partitions_itself(vectors)
        simd_level(levels.names()[-1])
        with pb.stats() as s:
            pb.par_partition(a, 1000)
            pb.par_partition(np.concatenate([a, a, a]), 1000)
            pb.par_partition(a.reshape(1000, -1), 10)
            if levels.names()[-1] in ("v3", "v4"):
                pb.par_argpartition(a, 1000)
        ours = vectors == 1 and levels.names()[-1] in ("v3", "v4")
        assert s.left == ({} if ours else {("par_partition", why): 1})
        simd_level(levels.names()[0])
        with pb.stats() as s:
            pb.par_partition(a, 1000)
            pb.par_argpartition(a, 1000)
            pb.par_argpartition(np.concatenate([a, a]), 1000)
        assert s.left == {("par_partition", why): 1, ("par_argpartition", why): 1}
    partitions_itself(0)
    with pb.stats() as s:
        pb.par_partition(a, 1000)
        pb.par_argpartition(a, 1000)
    assert s.left == {}


@pytest.mark.parametrize(("held", "left"), [("X86_V4", 1), ("X86_V4 X86_V3", 0)])
def test_whether_numpys_vectors_are_fast(held, left):
    """With AVX2 they are, beside a level of ours that has none; without it there are none."""
    features = importlib.import_module("numpy._core._multiarray_umath").__cpu_features__
    if not features.get("X86_V3"):
        pytest.skip("no AVX2, or a NumPy before 2.4, which knows no such levels")
    program = (
        "import numpy as np, pyblitz as pb\n"
        "pb.set_num_threads(2)\n"
        "with pb.stats() as s:\n"
        "    pb.par_partition(np.arange(500_000.0), 9)\n"
        "print(len(s.left))"
    )
    environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": held, "PYBLITZ_CPU": levels.names()[0]}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == left


# Around the sizes from which on ours part one row, and up to which one thread finds its indices.
BESIDE = {
    "f4": (300, 2_097_153),
    "f8": (65_535, 65_536, 1_048_577),
    "i4": (131_072, 2_097_153),
    "i8": (65_536, 1_048_577),
    "m8[s]": (300, 131_072),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("vectors", [1, 2])
@pytest.mark.parametrize("dtype", BESIDE)
def test_beside_numpys_vectors(dtype, vectors, partitions_itself):
    """Of times NumPy has none."""
    partitions_itself(vectors)
    for n in BESIDE[dtype]:
        a = values(dtype, (n,), n)
        check_partition(a, n // 2)
        check_partition(a, [n // 3, n - 1])


@pytest.mark.parametrize("vectors", [0, 1, 2])
def test_same_places_for_any_number_of_threads(vectors, partitions_itself, simd_level, pool_size):
    """Also where NumPy's vectors do some of them; equal items may differ in their bits."""
    partitions_itself(vectors)
    rng = np.random.default_rng(3)
    zeros = rng.choice(np.array([-0.0, 0.0, 1.0]), 1_050_000)
    for level in levels.names():
        simd_level(level)
        for a in (zeros[:2000], zeros[:200_000], zeros, rng.integers(0, 99, 2_100_000, "i4")):
            results = []
            for threads in (1, 2, 3):
                pool_size(threads)
                k = a.size // 3
                results.append((pb.par_partition(a, k), pb.par_argpartition(a, k)))
            for items, order in results[1:]:
                assert items.tobytes() == results[0][0].tobytes()
                assert (order == results[0][1]).all()


def sorted_between(a, kth, axis):
    """What is between the positions, sorted: of a partitioned array, the sorted array."""
    a = np.moveaxis(a, axis, -1).copy()
    n = a.shape[-1]
    begin = 0
    for k in sorted({int(k) % n for k in np.atleast_1d(kth)}):
        a[..., begin:k].sort(kind="stable")
        begin = k + 1
    a[..., begin:].sort(kind="stable")
    return np.moveaxis(a, -1, axis)


def check_partition(a, kth, axis=-1):
    before = a.copy()
    got = pb.par_partition(a, kth, axis)
    order = pb.par_argpartition(a, kth, axis)
    np.testing.assert_array_equal(a, before)
    if axis is None:
        a, axis = a.reshape(-1), 0
    full = np.sort(a, axis, kind="stable")
    assert_same(sorted_between(got, kth, axis), full)
    assert order.dtype == np.intp
    assert_same(sorted_between(np.take_along_axis(a, order, axis), kth, axis), full)
    places = np.broadcast_to(np.arange(a.shape[axis]), np.moveaxis(a, axis, -1).shape)
    assert (np.sort(np.moveaxis(order, axis, -1)) == places).all()


@settings(max_examples=30)
@given(arrays(dtypes=tuple(SORTED), shapes=VECTORS), st.data())
def test_partition(a, data):
    position = st.integers(-a.size, a.size - 1)
    kth = data.draw(position | st.lists(position, min_size=1, max_size=5))
    check_partition(a, kth)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", SPLIT)
@pytest.mark.parametrize("n", SIZES)
def test_sizes_around_thresholds(dtype, n):
    a = values(dtype, (n,), n)
    kths = (0, n // 3, n // 2, n - 1, -1, -n, [0, n // 2], [n // 4, n // 2, -n // 4])
    # Each at each size in some dtypes.
    first = (SIZES.index(n) + SPLIT.index(dtype)) % 3
    for kth in kths[first::3]:
        check_partition(a, kth)


@settings(max_examples=20)
@given(arrays(dtypes=("i2", "i4", "f8", "D", "S7"), shapes=tuple(SHAPES)), st.data())
def test_axes(a, data):
    axis = data.draw(st.sampled_from([None, *range(-a.ndim, a.ndim)]))
    n = a.size if axis is None else a.shape[axis]
    position = st.integers(-n, n - 1)
    check_partition(a, data.draw(position | st.lists(position, min_size=1, max_size=3)), axis)


PATTERNS = {
    "sorted": lambda n: np.arange(n),
    "reversed": lambda n: np.arange(n)[::-1],
    "equal": lambda n: np.full(n, 7),
    "two values": lambda n: np.arange(n) % 2,
    "two values, far": lambda n: np.arange(n) // (n // 2),
    "sixteen values": lambda n: np.random.default_rng(0).integers(0, 16, n) * 2**20,
    "sawtooth": lambda n: np.arange(n) % 1000,
    "organ pipe": lambda n: np.minimum(np.arange(n), np.arange(n)[::-1]),
    "outliers": lambda n: np.where(np.arange(n) % 9999 == 0, 2**31 - 1, np.arange(n) % 777),
    "zipf": lambda n: np.minimum(np.random.default_rng(0).zipf(1.3, n), 2**30),
    "one heavy value": lambda n: np.where(
        np.random.default_rng(0).random(n) < 0.9, 5, np.random.default_rng(1).integers(0, 999, n)
    ),
    "one heavy value beside others": lambda n: np.where(
        np.arange(n) < n // 2, 5, np.random.default_rng(1).integers(0, 10, n)
    ),
    "extremes": lambda n: np.where(np.arange(n) % 2 == 0, 0, 2**31 - 1),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", SPLIT)
def test_patterns(pattern, dtype):
    n = 100_000
    a = PATTERNS[pattern](n).astype(dtype)
    # The first and the last in every other dtype: integers and floats of both sizes have both.
    ends = (0, n - 1)[SPLIT.index(dtype) // 2 % 2]
    for kth in (ends, n // 2, [n // 4, n // 2]):
        check_partition(a, kth)


@pytest.mark.parametrize("dtype", ["f4", "f8", "M8[s]", "m8[ns]"])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.9999, 1.0])
def test_not_a_numbers(dtype, share):
    n = 80_000
    rng = np.random.default_rng(1)
    a = rng.integers(-(10**6), 10**6, n).astype("i8").view(dtype) if "8[" in dtype else None
    if a is None:
        a = rng.standard_normal(n).astype(dtype)
        a[rng.random(n) < 0.3] = np.inf
        a[rng.random(n) < 0.3] = -np.inf
    a[rng.random(n) < share] = "NaT" if a.dtype.kind in "mM" else np.nan
    for kth in (0, n // 3, n // 2, n - 1):
        check_partition(a, kth)
        for largest in (False, True):
            check_topk(a, kth // 7 + 1, largest)


def check_order(a, kth, axis=-1):
    """Of par_argpartition alone; returns what it gave."""
    order = pb.par_argpartition(a, kth, axis)
    n = a.shape[axis]
    got = np.moveaxis(np.take_along_axis(a, order, axis), axis, 0)
    full = np.sort(a, axis, kind="stable" if a.dtype == np.float16 else None)
    for k in np.atleast_1d(kth):
        item = np.moveaxis(full, axis, 0)[k]
        np.testing.assert_array_equal(got[k], item)
        # NaN is the greatest of all, and NaT.
        assert ((got[: k % n] <= item) | (item != item)).all()
        assert ((got[k % n :] >= item) | (got[k % n :] != got[k % n :])).all()
    assert (np.sort(order, axis) == np.indices(a.shape)[axis]).all()
    assert order.flags.c_contiguous
    assert order.dtype == np.intp
    return order


def equal_to_next(a):
    return (a[1:] == a[:-1]) | ((a[1:] != a[1:]) & (a[:-1] != a[:-1]))


@pytest.mark.parametrize("dtype", SPLIT)
def test_orders_at_each_level(dtype, simd_level):
    """Rows of a few hundred items and of a thread's most, whose order is found by vectors."""
    rng = np.random.default_rng(SPLIT.index(dtype))
    for n in (256, 257, 261, 300, 1000, 4099, 131_072, 131_080):
        some = values(dtype, (n,), n)
        patterns = [some, np.sort(some), some[rng.integers(0, 5, n)], some[:1].repeat(n)]
        if dtype[0] == "f":
            zeros = rng.choice(np.array([-1.0, -0.0, 0.0, 1.0], dtype), n)
            patterns += [zeros, np.where(rng.random(n) < 0.5, np.nan, some).astype(dtype)]
        for a in patterns[:: 1 if n < 5000 else 2]:
            for kth in (0, n // 3, -1, [n // 2, n // 5, n - 2]):
                orders = []
                for level in levels.names():
                    simd_level(level)
                    orders.append(check_order(a, kth))
                # Those that find it so give the same, and equal items are in their order.
                assert all((order == orders[-1]).all() for order in orders[1:])
                equal = equal_to_next(np.sort(a))
                # Of short rows, those of several positions are NumPy's.
                for order in orders if n > 5000 else [] if type(kth) is list else orders[1:]:
                    by_item = np.lexsort((np.arange(n), a[order]))
                    assert (np.diff(order[by_item])[equal] > 0).all()


@pytest.mark.parametrize("kind", ["axis", "position", "list", "swapped", "none", "rows"])
def test_equal_items_keep_their_order(kind):
    """However the row and its position are named."""
    if "v3" not in levels.names():
        pytest.skip("without AVX2 short rows are NumPy's")
    a = np.random.default_rng(8).integers(0, 5, 1000)
    order = {
        "axis": lambda: pb.par_argpartition(a[None], 500, 1)[0],
        "position": lambda: pb.par_argpartition(a, np.int64(500)),
        "list": lambda: pb.par_argpartition(a, [500]),
        "swapped": lambda: pb.par_argpartition(a.astype(">i8").repeat(50), 500),
        "none": lambda: pb.par_argpartition(a, 500, None),
        "rows": lambda: pb.par_argpartition(np.stack([a] * 100, 1), 500, 0)[:, 3],
    }[kind]()
    if kind == "swapped":
        a = a.repeat(50)
    by_item = np.lexsort((np.arange(a.size), a[order]))
    assert (np.diff(order[by_item])[equal_to_next(np.sort(a))] > 0).all()


@pytest.mark.parametrize("dtype", ["i4", "f8"])
def test_a_position_between_two_frequent_values(dtype):
    for n in (1000, 4096, 131_072):
        for values_ in ([0, 1], [0, 1, 1, 2], [5, 5, 5, 6, 7]):
            a = np.random.default_rng(n).permutation(np.resize(np.array(values_, dtype), n))
            ends = np.flatnonzero(np.diff(np.sort(a)))
            for k in (*ends, *(ends + 1), n // 2):
                check_order(a, int(k))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_zeros_of_both_signs_on_either_side(dtype):
    """Of a sample's two items around the position either may have the sign, and they are no pivot:
    too few items are zeros."""
    rng = np.random.default_rng(4)
    a = rng.standard_normal(1_050_000 if dtype == "f8" else 300_000).astype(dtype)
    for share in (0.1, 0.14):
        zeros = rng.random(a.size) < share
        a[zeros] = np.where(rng.random(zeros.sum()) < 0.5, -0.0, 0.0)
        for k in np.linspace(-0.5, 0.5, 7) * share * a.size:
            check_order(a, a.size // 2 + int(k))


@pytest.mark.parametrize("dtype", SPLIT)
def test_orders_of_rows(dtype):
    a = values(dtype, (40, 300), 5)
    for x in (a, a[::-1, ::-1], np.asfortranarray(a), a.reshape(4, 10, 300), a[:0], a[:1]):
        for kth in (7, -300, 299):
            assert check_order(x, kth).shape == x.shape
            if x.size:
                check_partition(x, kth)
            assert pb.par_partition(x, kth).strides == np.partition(x, kth).strides
    long = values(dtype, (16, 131_080), 6)
    check_order(long, 50_000)
    assert_same(np.sort(pb.par_partition(long, 9), -1), np.sort(long, -1))
    for kth in (7, -40):
        check_order(a, kth, 0)
        check_order(np.ascontiguousarray(a.T), kth, 0)
    swapped = a.astype(a.dtype.newbyteorder())
    check_order(swapped, 7)
    check_order(swapped[0], 7)
    with pytest.raises(ValueError, match="out of bounds"):
        pb.par_argpartition(a, 300)
    with pytest.raises(ValueError, match="out of bounds"):
        pb.par_argpartition(a, -301)


def test_samples_that_mislead_each_time():
    """Of words: the k-th is in none of the ranges that samples give, so that all are sorted.  Of
    items, those that are less than a range keep their order, so that samples mislead again."""
    n, samples = 8000, 128
    for sign in (1, -1):
        a, rest = sign * np.random.default_rng(2).permutation(n), np.arange(n)
        state = 0x9E3779B97F4A7C15
        for turn in range(16):
            places, stretch = [], len(rest) // samples
            for i in range(samples):
                state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
                places.append(i * stretch + (state >> 33) % stretch)
            a[rest[places]] = sign * (10**9 - turn)
            rest = np.delete(rest, places)
        for dtype in ("i8", "i4", "f8"):
            for kth in (n // 2, 3000, n - 3000):
                check_order(a.astype(dtype), kth)
                check_partition(a.astype(dtype), kth)


# A row's, a longer one's, a split's, and topk's: how many of how many items are a sample.
@pytest.mark.parametrize(
    ("n", "samples"), [(1 << 18, 512), (1_050_000, 2048), (1_050_000, 4096), (1 << 18, 2048)]
)
def test_a_sample_that_misleads(n, samples):
    """Where the sample is taken, other items than elsewhere."""
    plain = np.arange(n)
    # The places of a sample of a row of this length, by a row that is its own places.
    state, places = 0x9E3779B97F4A7C15, []
    for i in range(samples):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        places.append(i * (n // samples) + (state >> 33) % (n // samples))
    for sign in (1, -1):
        a = plain.copy()
        a[places] = sign * 10**9
        for kth in (100, n // 2):
            check_partition(a, kth)
        for k in (1, 100, n // 4) if n < 1 << 20 else ():
            check_topk(a, k, True)
            check_topk(a, k, False)


def test_large():
    n = 1_100_000  # two bytes are counted above 2**20
    for dtype in ("i2", "u1", "f2", "f4", "i8"):
        check_partition(values(dtype, (n,), 1), [n // 2, n // 100])


def test_median_of_many():
    n = 1_050_001
    a = np.random.default_rng(5).permutation(n)
    got = pb.par_partition(a, n // 2)
    assert got[n // 2] == n // 2
    assert got[: n // 2].max() == n // 2 - 1
    order = pb.par_argpartition(a, n // 2)
    assert a[order[n // 2]] == n // 2
    assert a[order[n // 2 :]].min() == n // 2


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_types_that_are_numpys_alone():
    rng = np.random.default_rng(0)
    table = np.zeros(70_000, [("a", "i4"), ("b", "f8")])
    table["a"], table["b"] = rng.integers(0, 9, 70_000), rng.random(70_000)
    assert_same(pb.par_partition(table, 9, order="b"), np.partition(table, 9, order="b"))
    objects = rng.integers(0, 99, 70_000).astype(object)
    assert_same(pb.par_partition(objects, 9), np.partition(objects, 9))
    assert_same(pb.par_argpartition(objects, 9), np.argpartition(objects, 9))
    assert isinstance(pb.par_partition(np.matrix(np.ones((300, 300))), 2), np.matrix)
    assert pb.par_partition([3, 1, 2], 1).tolist() == [1, 2, 3]
    check_partition(np.arange(80_000)[::-1], np.int8(3))
    check_partition(np.arange(80_000)[::-1], np.array([3, 5], np.uint16))


@pytest.mark.parametrize("n", [1000, 40_000])
def test_forms_of_a_position(n):
    """Each means what NumPy takes it for; equal items keep their order in all."""
    a = np.random.default_rng(1).integers(0, 99, n)
    expected = pb.par_argpartition(a, n - 5).tolist()
    for kth in (-5, [-5], (-5,), np.int8(-5), [np.int16(-5)], np.array(-5, "i1"), np.array([-5])):
        assert pb.par_argpartition(a, kth).tolist() == expected
        check_partition(a, kth)


BIG = np.zeros((300, 301))
LONG = np.arange(70_000)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(LONG, 70_000),
        lambda f: f(LONG, -70_001),
        lambda f: f(LONG, [1, 70_000]),
        lambda f: f(LONG, 1.5),
        lambda f: f(LONG, "x"),
        lambda f: f(LONG, None),
        lambda f: f(LONG, np.timedelta64(3)),
        lambda f: f(LONG, True),
        lambda f: f(LONG, [[1, 2]]),
        lambda f: f(LONG, []),
        lambda f: f(LONG, 3, kind="quicksort"),
        lambda f: f(LONG, 3, kind=None),
        lambda f: f(LONG, 3, order="a"),
        lambda f: f(BIG, 3, axis=2),
        lambda f: f(BIG, 3, axis="x"),
        lambda f: f(BIG, 300, axis=0),
        lambda f: f(np.array(3.0), 0),
        lambda f: f(np.array([1, "a", None], object), 1),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["partition", "argpartition"])
def test_bad_input_raises_what_numpy_raises(call, name):
    try:
        expected = call(getattr(np, name))
    except Exception as error:
        with pytest.raises(type(error)):
            call(getattr(pb, "par_" + name))
    else:
        assert call(getattr(pb, "par_" + name)).shape == expected.shape
    assert not BIG.any()
    assert (np.arange(70_000) == LONG).all()


# ---- par_topk


def first_of(a, k, largest):
    """Indices of the first k of each row."""
    rank = np.unique(a.reshape(-1), return_inverse=True)[1].reshape(a.shape)
    if largest:
        gap = np.isnat(a) if a.dtype.kind in "mM" else np.isnan(a) if a.dtype.kind in "fc" else None
        rank = -rank
        if gap is not None:
            rank[gap] = 1
    return np.argsort(rank, axis=-1, kind="stable")[..., :k]


def check_topk(a, k, largest, axis=-1):
    before = a.copy()
    got = pb.par_topk(a, k, axis, largest=largest)
    if axis is None:
        a, axis = a.reshape(-1), 0
    expected = np.moveaxis(first_of(np.moveaxis(a, axis, -1), k, largest), -1, axis)
    assert_same(got.indices, expected)
    assert_same(got.values, np.take_along_axis(a, expected, axis))
    # The same ones in any order.
    got = pb.par_topk(a, k, axis, largest=largest, sorted=False)
    assert_same(np.sort(got.indices, axis), np.sort(expected, axis))
    assert_same(got.values, np.take_along_axis(a, got.indices, axis))
    np.testing.assert_array_equal(a, before.reshape(a.shape))


@settings(max_examples=30)
@given(
    arrays(dtypes=tuple(d for d in SORTED if d not in "FD"), shapes=VECTORS),
    st.booleans(),
    st.data(),
)
def test_topk(a, largest, data):
    k = data.draw(st.sampled_from([0, 1, 100, a.size // 8, a.size // 2, a.size - 1, a.size]))
    check_topk(a, min(k, a.size), largest)


@settings(max_examples=12)
@given(
    arrays(dtypes=("?", "i1", "u2", "f2", "f8", ">f8", "S7", "M8[s]"), shapes=tuple(SHAPES)),
    st.booleans(),
    st.data(),
)
def test_topk_along_axes(a, largest, data):
    axis = data.draw(st.sampled_from([None, *range(-a.ndim, a.ndim)]))
    n = a.size if axis is None else a.shape[axis]
    rows = a.size // n
    k = data.draw(st.sampled_from([0, 1, n // 9, n // 2, n]))
    if rows > 1000 and a.dtype.kind == "S":
        a = a[:50]
        k = min(k, a.size if axis is None else a.shape[axis])
    check_topk(a, k, largest, axis)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "f2", *SPLIT])
@pytest.mark.parametrize("largest", [False, True])
def test_topk_of_extremes(dtype, largest):
    d = np.dtype(dtype)
    if d.kind == "f":
        info = np.finfo(d)
        a = np.array(
            [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, info.max, info.min, info.tiny, -info.tiny]
        )
    elif d.kind in "mM":
        a = np.array([0, -(2**63), -(2**63) + 1, 2**63 - 1, 5, -5])
    elif d.kind == "b":
        a = np.array([True, False])
    else:
        info = np.iinfo(d)
        a = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1], d)
    with np.errstate(all="ignore"):
        a = a.view(d) if d.kind in "mM" else a.astype(d)
    for b in (a, a[::-1], np.tile(a, 50_000), np.tile(a, (40, 30))):
        for k in (1, 2, b.shape[-1] // 2, b.shape[-1]):
            check_topk(b, k, largest)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_topk_of_patterns(pattern):
    n = 140_000
    for dtype in ("i8", "f4"):
        a = PATTERNS[pattern](n).astype(dtype)
        for i, k in enumerate((1, 1000, n // 2, n // 2 + 1, n)):
            check_topk(a, k, i % 2 == (dtype == "i8"))


@pytest.mark.parametrize("dtype", SPLIT)
def test_topk_looks_at_many_at_once(dtype, simd_level):
    """Rows that begin anywhere in a line of the cache, and blocks of a long one, whose equal items
    and NaNs or NaTs are first or last in a block; by the vectors of each level."""
    rng = np.random.default_rng(8)
    kind = np.dtype(dtype).kind
    for n in (500, 5_000, 262_144, 393_221):
        numbers = rng.integers(0, 1000, n + 1).astype("i8")
        many = rng.integers(-(1 << 31), 1 << 31, n + 1)
        ordered = np.sort(many)
        for a in (numbers, ordered, ordered[::-1].copy())[: 3 if n < 10_000 else 2]:
            a = a.astype(dtype)
            if kind in "fmM":
                a[rng.integers(0, n, n // 50)] = np.nan if kind == "f" else np.array("NaT", dtype)
            for level in levels.names():
                simd_level(level)
                for k in (1, 7, 32, 33) if n < 10_000 else (7,):
                    for largest in (False, True):
                        check_topk(a[n % 2 : n], min(k, n // 32), largest)


def test_topk_of_other_types():
    rng = np.random.default_rng(0)
    text = rng.integers(0, 50, 3000).astype(np.dtypes.StringDType())
    for a in (text, rng.integers(0, 99, 3000).astype(object)):
        check_topk(a, 7, True)
        check_topk(a.reshape(30, 100), 7, False, 0)
    a = np.array([1j, np.nan, 2, complex(0, np.nan), 2])
    assert pb.par_topk(a, 3).indices.tolist() == [2, 4, 0]
    assert pb.par_topk(a, 3, largest=False).indices.tolist() == [0, 2, 4]
    assert pb.par_topk([3, 9, 9], np.int8(2), sorted=False).indices.tolist() == [1, 2]
    top = pb.par_topk([3, 9], 1)
    assert type(pickle.loads(pickle.dumps(top))) is pb.TopK
    assert [x.shape for x in pb.par_topk(np.zeros((3, 0)), 0)] == [(3, 0)] * 2
    assert [x.shape for x in pb.par_topk(np.zeros((0, 3)), 2)] == [(0, 2)] * 2


def test_topk_names_what_is_wrong():
    for a, k in (([1, 2], 3), ([1, 2], -1), ([], 1), (np.zeros((3, 4)), 5)):
        with pytest.raises(ValueError, match="k: must be from 0 to"):
            pb.par_topk(a, k)
    with pytest.raises(TypeError):
        pb.par_topk([1, 2], 1.0)
    with pytest.raises(TypeError):
        pb.par_topk(np.array([1, None], object), 1)
    for a, axis in (([1, 2], 1), (3, -1)):
        with pytest.raises(np.exceptions.AxisError):
            pb.par_topk(a, 1, axis)


# ---- all


def test_same_for_any_number_of_threads(pool_size):
    seen = set()
    arrays = [values(d, (300_000,), 1) for d in ("f8", "i4", "M8[s]")]
    rows = values("f4", (300, 500), 1)
    for n in (1, 2, 3, 8):
        pool_size(n)
        results = [pb.par_partition(rows, 20), pb.par_argpartition(rows, [3, 20], 0)]
        results += pb.par_topk(rows, 9)
        for a in arrays:
            results += [pb.par_partition(a, 150_000), pb.par_argpartition(a, [7, 150_000])]
            results += pb.par_topk(a, 1000)
        seen.add(tuple(r.tobytes() for r in results))
    assert len(seen) == 1


def test_progress():
    seen = []
    a = values("i4", (200_000,), 1)

    def tell(done, total):
        seen.append((done, total))

    assert_same(pb.par_partition(a, 9, progress=tell), pb.par_partition(a, 9))
    assert seen[-1][0] == seen[-1][1] > 0
    assert_same(pb.par_argpartition(a, 9, progress=tell), pb.par_argpartition(a, 9))
    got, expected = (
        pb.par_topk(a, 9, largest=False, progress=tell),
        pb.par_topk(a, 9, 0, largest=False),
    )
    assert_same(got.indices, expected.indices)


# Rows that threads share, of both widths, and one whose order they do.
@pytest.mark.races
@pytest.mark.parametrize(("n", "dtype"), [(400_000, "i8"), (400_000, "f4"), (1_100_000, "f8")])
def test_another_thread_writes_what_is_parted(n, dtype):
    """As test_sort.py has it: nothing out of bounds."""
    a = np.random.default_rng(0).integers(0, 2**62, n).astype(dtype)
    done = threading.Event()

    def write():
        while not done.is_set():
            a[n // 2 :] = 0
            a[n // 2 :] = 2**62

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(16_000_000 // n):
            assert pb.par_partition(a, n // 2).shape == (n,)
            assert pb.par_argpartition(a, n // 3).shape == (n,)
    finally:
        done.set()
        writer.join()
    assert pb.par_partition(a, n // 2)[n // 2] == np.partition(a, n // 2)[n // 2]


def test_one_thread_stops_in_the_middle_of_a_row(pool_size):
    pool_size(1)
    n = 1 << 24
    a = np.arange(n) * 2654435761 % n

    def took(timeout):
        begun = time.perf_counter()
        with contextlib.suppress(TimeoutError), pb.CancelScope(timeout=timeout):
            pb.par_partition(a, n // 2)
        return time.perf_counter() - begun

    whole = min(took(60) for _ in range(3))
    assert min(took(whole / 10) for _ in range(3)) < whole / 2


# ---- what NumPy need not do alone ---------------------------------------------


def jobs_of(call):
    with pb.stats() as s:
        result = call()
    return result, sum(w.busy for w in s.workers)


@pytest.mark.parametrize("dtype", [">i4", ">f8", "S5", "U3", "i1", "?", "i4,f8", "M8[s]", ">M8[s]"])
@pytest.mark.parametrize("axis", [None, np.int64(0)])
def test_every_dtype_is_shared(dtype, axis):
    n = 70_000
    base = np.random.default_rng(7).integers(0, 100, n)
    a = np.zeros(n, dtype)
    if a.dtype.names:
        a["f0"], a["f1"] = base, base[::-1]
    else:
        a[...] = base.astype(a.dtype)
    expected = np.sort(a)
    for k in (5, [n // 2], np.int64(-1), np.array(n // 3)):
        got, busy = jobs_of(lambda k=k: pb.par_partition(a, k, axis))
        assert busy > 0
        assert got.dtype == a.dtype
        assert got[k] == expected[k]
        assert np.array_equal(np.sort(got), expected)
        order = pb.par_argpartition(a, k, axis)
        assert a[order][k] == expected[k]
        assert np.array_equal(np.sort(order), np.arange(n))


def test_partition_by_a_field():
    a = np.zeros(50_000, "i4,f8")
    a["f1"] = np.random.default_rng(8).permutation(50_000)
    assert pb.par_partition(a, 700, order="f1")["f1"][700] == 700
    with pytest.raises(ValueError, match="nonsense"):
        pb.par_partition(a, 700, order="nonsense")


def test_topk_refuses_masks_and_more_than_there_are():
    with pytest.raises(TypeError, match="knows no masks"):
        pb.par_topk(np.ma.array([3, 1, 2], mask=[1, 0, 0]), 1)
    with pytest.raises(ValueError, match="k: must be from 0 to 2, the length of the axis, not 3"):
        pb.par_topk([1, 2], 3)


def test_few_items_where_nothing_is_too_few(script):
    """Of fewer than a sample has: a division by zero killed the process."""
    out = script(
        """
import numpy as np, pyblitz as pb
for n in range(1, 300):
    a = np.random.default_rng(n).permutation(n).astype(float)
    values, at = pb.par_topk(a, min(n, 10))
    assert (values == np.sort(a)[::-1][:10]).all() and (a[at] == values).all()
    assert pb.par_partition(a, n // 2)[n // 2] == n // 2
a = np.random.default_rng(0).random(5000)
assert (np.sort(pb.par_topk(a, 100, sorted=False).values) == np.sort(a)[-100:]).all()
print("done")
""",
        env={"PYBLITZ_SHARE_FROM": "1"},
    )
    assert out == "done\n"
