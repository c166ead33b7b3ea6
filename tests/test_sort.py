"""par_sort is np.sort, in both directions."""

from __future__ import annotations

import array
import itertools
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from arrays import SHAPES, arrays, values
from hypothesis import given, settings
from hypothesis import strategies as st
from sorting import (
    AROUND,
    AROUND_A_MILLION,
    DTYPES,
    KINDS,
    NUMPY_DESCENDS,
    PATTERNS,
    THREADS,
    adversaries,
    assert_same_bits,
    assert_same_values,
    assert_sorted_from,
    keys_as,
    stable_order,
    take_order,
)

import pyblitz as pb
from pyblitz.kernels.simd import levels

# NumPy refuses a kind beside another option.
OPTIONS = [
    *({"kind": kind} for kind in KINDS),
    *({"stable": stable} for stable in (True, False)),
    {"descending": True},
    {"descending": False},
    {"descending": True, "stable": True},
    {"descending": True, "stable": False},
]
BOTH_WAYS = [{}, {"stable": True}, {"descending": True}, {"descending": True, "stable": True}]


def check(a, axis=-1, **options):
    got = pb.par_sort(a, axis, **options)
    assert type(got) is np.ndarray
    assert not np.shares_memory(got, a)
    assert_sorted_from(a, got, axis, **options)
    return got


# Picoseconds that a word is said to take NumPy's sort, in pieces, and NumPy's sort of floats, so
# that each way is taken.
AT_ONCE, IN_PARTS, IN_PIECES = (2, 10**6, 1), (20_000, 10**6, 10**6), (10**9, 1000, 10**9)
IN_PARTS_OF_FLOATS = (10**6, 10**6, 20_000)


@pytest.mark.parametrize(
    ("n", "dtype"),
    [
        # Fewer are left to NumPy, whose sort of floats on ARM loses signs of zeros (2.4.6).
        *itertools.product([1000, 20_000, 70_001], ["i4", "u4", "f4", "i8", "u8", "f8", "M8[s]"]),
        *itertools.product([4_300_000], ["u4", "f4", "i8"]),
    ],
)
def test_either_way_gives_the_same(dtype, n, leaves_take, simd_level, pool_size):
    """All at once by NumPy's sort, however slow it is here; or in parts, each by that or in
    pieces; parts between splitters at each level of the processor."""
    few = n < 1_000_000
    made = dict(adversaries(dtype, n)) if few else {"random": values(dtype, (n,), 0)}
    ways = [
        (AT_ONCE, 1, -1),
        (IN_PARTS, 2, 0),
        (IN_PARTS, 4, -1),
        (IN_PARTS_OF_FLOATS, 2, -1),
        (IN_PIECES, 1, 0),
        (IN_PIECES, 3, -1),
    ]
    options_tried = BOTH_WAYS[:: 1 if n < 20_000 else 3 if few else 2]
    first = {}
    for k, (way, threads, level) in enumerate(ways):
        leaves_take(*way)
        simd_level(levels.names()[level])
        pool_size(threads)
        for name, a in made.items():
            for i, options in enumerate(options_tried):
                if few or k % 2:
                    out = a.copy()
                    pb.par_sort(out, out=out, **options)
                    assert_same_bits(out, first.setdefault((name, i), out))
                if few or k % 2 == 0:
                    got = pb.par_sort(a, **options)
                    assert_same_bits(got, first.setdefault((name, i), got))
    for name, a in made.items():
        assert_same_values(first[name, 0], np.sort(a)), name


@pytest.mark.parametrize("dtype", ["u4", "u8", "i4", "i8"])
@pytest.mark.parametrize("way", [IN_PARTS, IN_PIECES])
def test_words_of_which_there_are_many(dtype, way, leaves_take, pool_size):
    """Each has a part of its own: also the greatest, behind which there is nothing, and words
    next to each other."""
    leaves_take(*way)
    pool_size(2)
    info = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    n = 100_000
    ends = np.array([info.min, info.min + 1, info.max - 1, info.max], dtype)
    # Neighbours share splitters; of 20 others each needs two, and of 40 there are too many.
    apart = np.array([info.min + (info.max - info.min) // 40 * k for k in range(40)], dtype)
    for some in (
        *(ends, ends[2:], ends[3:], np.array([5, 6, 7], dtype)),
        *(np.arange(10, dtype=dtype), apart[::2], apart),
    ):
        for share in (0.3, 0.95, 1.0):
            a = np.where(
                rng.random(n) < share,
                rng.choice(some, n),
                rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True),
            )
            assert np.array_equal(pb.par_sort(a), np.sort(a))


@pytest.mark.parametrize("dtype", ["u4", "i8"])
@pytest.mark.parametrize("at", ["least", "middle", "greatest"])
def test_a_word_of_which_there_are_most(dtype, at, leaves_take, pool_size):
    """Its part is so large that all threads store it, also where no other word can be greater."""
    leaves_take(*IN_PARTS)
    info = np.iinfo(dtype)
    most = {"least": info.min, "middle": 7, "greatest": info.max}[at]
    rng = np.random.default_rng(0)
    n = 1_000_000
    a = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
    a[rng.random(n) < 0.6] = most
    for threads in (1, 2, 3, 33):
        pool_size(threads)
        assert np.array_equal(pb.par_sort(a), np.sort(a))
        assert np.array_equal(pb.par_sort(a, descending=True), np.sort(a)[::-1])
        b = a.copy()
        assert np.array_equal(pb.par_sort(b, out=b), np.sort(a))


# NumPy's leaf sort cannot be stopped. It is said to be so slow here that none gets the whole
# array, not even where the processor is emulated, and moving words to parts takes long. Ours,
# where there are vectors for it, asks before it parts more than a million words.
STOPPED = {
    "parts": ((10**6, 10**9, 10**9), 1_000_000),
    "pieces": (IN_PIECES, 1_000_000),
    "at once": ((10**6, 10**9, 10**9, 1), 2_500_000),
}


@pytest.mark.parametrize(("way", "n"), STOPPED.values(), ids=STOPPED)
@pytest.mark.parametrize("equal", [1, 100_000])
def test_what_is_stopped_in_place_keeps_its_items(equal, way, n, leaves_take, pool_size):
    """At any moment; also of some distinct ones, which as parts are counted and not moved."""
    leaves_take(*way)
    pool_size(2)
    a = np.random.default_rng(0).permutation(n)
    a //= equal
    expected = np.bincount(a)
    pb.par_sort(a)  # which times what it has not timed yet
    began = time.perf_counter()
    pb.par_sort(a)
    whole = time.perf_counter() - began
    stopped = 0
    for part in np.linspace(0.02, 1.2, 60):
        b = a.copy()
        began = time.perf_counter()
        try:
            with pb.CancelScope(timeout=part * whole):
                pb.par_sort(b, out=b)
            # Others may have had the CPUs when it was timed.
            whole = min(whole, time.perf_counter() - began)
        except TimeoutError:
            stopped += 1
        assert np.array_equal(np.bincount(b), expected)
    assert stopped > 10


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_reference_is_numpys_own(dtype):
    """Of the direction that this NumPy has."""
    for n in (0, 1, 2, 17, 300, 5000):
        a = values(dtype, (n,), n)
        for descending in (False, True) if NUMPY_DESCENDS else (False,):
            options = {"descending": True} if descending else {}
            perm = stable_order(a, descending=descending)
            assert np.array_equal(perm, np.argsort(a, stable=True, **options))
            assert_same_bits(take_order(a, perm), np.sort(a, stable=True, **options))
            assert_same_values(take_order(a, perm), np.sort(a, stable=False, **options))


def test_the_reference_downwards():
    nan, inf = np.nan, np.inf
    a = np.array([-0.0, nan, 1, 0.0, -inf, -nan, inf, 1, -0.0])
    assert stable_order(a, descending=True).tolist() == [6, 2, 7, 0, 3, 8, 4, 1, 5]
    times = np.array([3, "NaT", 5, 3, "NaT"], "M8[s]")
    assert stable_order(times, descending=True).tolist() == [2, 0, 3, 1, 4]
    a = np.array(
        [complex(*z) for z in ((1, nan), (nan, 2), (3, 1), (nan, nan), (3, 2), (2, nan), (nan, 3))]
    )
    assert stable_order(a, descending=True).tolist() == [4, 2, 5, 0, 6, 1, 3]
    rows = np.array([[1, 2, 1], [2, 2, 3]])
    assert stable_order(rows, descending=True).tolist() == [[1, 0, 2], [2, 0, 1]]
    assert stable_order(rows, 0, True).tolist() == [[1, 0, 1], [0, 1, 0]]
    assert stable_order(rows, None, True).tolist() == [5, 1, 3, 4, 0, 2]


@settings(max_examples=80)
@given(
    arrays(dtypes=tuple(DTYPES), shapes=tuple(s for s in SHAPES if s)),
    st.sampled_from(OPTIONS),
    st.sampled_from(["new", "in place", "out", "strided out"]),
    st.data(),
)
def test_sort(a, options, where, data):
    axis = data.draw(st.sampled_from([None, *range(-a.ndim, a.ndim)]))
    before = a.copy()
    if where == "new" or (where == "in place" and axis is None):
        got = check(a, axis, **options)
        expected = np.sort(a, axis)
        assert got.strides == expected.strides or got.size <= 1
    elif where == "in place":
        assert pb.par_sort(a, axis, out=a, **options) is a
        assert_sorted_from(before, a, axis, **options)
        return
    else:
        shape = (a.size,) if axis is None else a.shape
        out = np.empty((*shape[:-1], 2 * shape[-1]), a.dtype)[..., :: 1 + (where != "out")]
        out = out[..., : shape[-1]]
        assert pb.par_sort(a, axis, out=out, **options) is out
        assert_sorted_from(a, out, axis, **options)
    assert_same_bits(a, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes_around_thresholds(dtype):
    sizes = [0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 128, 129, *AROUND]
    base = values(dtype, (max(sizes),), 5)
    for i, n in enumerate(sizes):
        # Each of the options around each of the larger thresholds in some dtype.
        chosen = BOTH_WAYS if n < 9000 else [BOTH_WAYS[(i + DTYPES.index(dtype)) % 4]]
        for options in chosen:
            check(base[:n], **options)


@pytest.mark.parametrize("dtype", ["i8", "f8", "f4", "u2", "i1"])
def test_sizes_around_a_million(dtype):
    base = values(dtype, (max(AROUND_A_MILLION),), 6)
    for i, n in enumerate(AROUND_A_MILLION):
        check(base[:n], **BOTH_WAYS[(i + len(dtype)) % 4])


@pytest.mark.parametrize("dtype", ["i2", "f2", "i8", "f4", "u1"])
def test_large(dtype):
    a = values(dtype, (1_500_000,), 9)
    for options in ({}, {"descending": True}):
        check(a, **options)


@pytest.mark.parametrize("dtype", ["i8", "f8", "u4", "f4", "M8[ns]"])
def test_adversaries(dtype):
    n = 140_000
    for i, (name, a) in enumerate(adversaries(dtype, n)):
        # Each in every way, for integers of 8 bytes; for the others the four in turn.
        for options in BOTH_WAYS if dtype == "i8" else [BOTH_WAYS[i % 4], BOTH_WAYS[(i + 1) % 4]]:
            try:
                check(a, **options)
            except AssertionError as e:
                raise AssertionError(f"{name}, {options}") from e


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [*DTYPES, "S12", "U12", "S104"])
@pytest.mark.parametrize("n", [1777, 33_000])
def test_adversaries_of_every_dtype(dtype, n):
    if n > 30_000 and np.dtype(dtype).itemsize > 48:
        n //= 2
    for i, (name, a) in enumerate(adversaries(dtype, n)):
        for options in BOTH_WAYS[i % 2 :: 2] if n < 2000 else [BOTH_WAYS[i % 4]]:
            try:
                check(a, **options)
            except AssertionError as e:
                raise AssertionError(f"{name}, {options}") from e


@pytest.mark.parametrize("dtype", ["i8", "f4"])
def test_two_neighbours_out_of_order_anywhere(dtype):
    """Whether there is anything to sort is asked by chunks, and from each to the next."""
    n = 70_000
    for risen in (np.arange(n).astype(dtype), np.arange(n)[::-1].astype(dtype)):
        a = risen.copy()
        expected = {down: np.sort(a)[:: -1 if down else 1] for down in (False, True)}
        for k in (*range(1, 20), *range(240, 530), *range(65_530, 65_560)):
            a[k - 1], a[k] = risen[k], risen[k - 1]
            down = bool(k % 2)
            assert np.array_equal(pb.par_sort(a, descending=down), expected[down]), k
            a[k - 1], a[k] = risen[k - 1], risen[k]


@pytest.mark.parametrize("dtype", ["i8", "f8", "f4", "D", "S12", "u1"])
def test_adversaries_in_place(dtype):
    for i, (name, a) in enumerate(adversaries(dtype, 40_000)):
        options = BOTH_WAYS[i % 4]
        b = a.copy()
        assert pb.par_sort(b, out=b, **options) is b
        try:
            assert_sorted_from(a, b, **options)
        except AssertionError as e:
            raise AssertionError(f"{name}, {options}") from e


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["i8", "f8", "f4", "i2", "u1", "?", "D", "M8[s]", "S7", "U3"])
@pytest.mark.parametrize(
    "shape",
    [
        (30_000, 1),
        (30_000, 2),
        (9000, 7),
        (2000, 33),
        (500, 130),
        (65, 1025),
        (15, 999),
        (16, 999),
        (17, 999),
    ],
)
def test_many_short_rows(dtype, shape):
    a = values(dtype, shape, 3)
    for options in BOTH_WAYS:
        check(a, **options)
    check(a.T.copy(), 0)
    check(a.T.copy(), 0, descending=True)
    check(np.asfortranarray(a), stable=True)


@pytest.mark.parametrize("dtype", ["i8", "f4", "D"])
def test_few_long_rows(dtype):
    for i, shape in enumerate([(2, 70_000), (3, 40_000), (7, 33_000)]):
        a = values(dtype, shape, 3)
        for k, options in enumerate(BOTH_WAYS):
            check(*((a,) if (i + k) % 2 else (a.T.copy(), 0)), **options)
    check(a, None, descending=True)


def test_rows_of_one_element_and_none():
    for shape in ((0,), (0, 4), (4, 0), (50_000, 1), (1, 1, 1), (200, 0, 300)):
        for axis in (None, *range(len(shape))):
            check(np.ones(shape), axis)
            check(np.ones(shape), axis, descending=True)


@pytest.mark.parametrize("n", [999, 20_001, 150_001])
def test_stable_keeps_what_cannot_be_told_apart_in_order(n):
    """Zeros keep their signs and NaNs their payloads, in their order."""
    for dtype, unsigned in (("f2", "u2"), ("f4", "u4"), ("f8", "u8")):
        a = np.random.default_rng(n).integers(-2, 3, n).astype(dtype)
        bits = a.view(unsigned)
        sign = np.array(1 << (8 * a.itemsize - 1), unsigned)
        bits[np.random.default_rng(1).random(n) < 0.5] |= sign
        missing = np.random.default_rng(2).random(n) < 0.3
        tags = (np.arange(missing.sum()) % 500 + 1).astype(unsigned)
        bits[missing] = np.array(np.inf, dtype).view(unsigned) | tags
        for options in (
            {"stable": True},
            {"kind": "stable"},
            {"kind": "mergesort"},
            {"stable": True, "descending": True},
        ):
            got = pb.par_sort(a, **options).view(unsigned)
            last = n - missing.sum()
            assert (got[last:] == bits[missing]).all()
            zeros = (got & ~sign) == 0
            assert (got[zeros] == bits[(bits & ~sign) == 0]).all()
            assert_sorted_from(a, got.view(dtype), **options)


@pytest.mark.parametrize("n", [1000, 20_000, 200_000, 1_500_000])
def test_half_precision_is_sorted_whatever_numpy_does(n):
    """NumPy 2.4.6 does not sort half precision by its default kernel with AVX-512."""
    a = np.random.default_rng(n).standard_normal(n).astype(np.float16)
    for kind in KINDS:
        got = pb.par_sort(a, kind=kind)
        assert (got[1:] >= got[:-1]).all()
    got = pb.par_sort(a, descending=True)
    assert (got[1:] <= got[:-1]).all()


@pytest.mark.parametrize("n", [500, 120_000])
def test_any_byte_but_zero_is_true(n):
    a = (np.arange(n) % 5).astype("u1").view("?")
    for descending in (False, True):
        truth = pb.par_sort(a, descending=descending).view("u1") != 0
        assert truth.tolist() == sorted((a.view("u1") != 0).tolist(), reverse=descending)


@pytest.mark.parametrize(
    "dtype", ["i8", "f8", "f4", "u2", "f2", "i1", "D", "g", "S20", "U3", ">i4"]
)
def test_same_for_any_number_of_threads(pool_size, dtype):
    a = values(dtype, (70_000,), 1)
    rows = values(dtype, (120, 600), 2)
    first = None
    for n in THREADS:
        pool_size(n)
        made = [
            pb.par_sort(x, i, **options)
            for x in (a, rows)
            for i in (0, -1)
            for options in BOTH_WAYS
        ]
        first = first or made
        for x, y in zip(made, first, strict=True):
            assert_same_bits(x, y)


@pytest.mark.parametrize("pattern", ["zipf", "all equal", "one heavy value", "median-of-3 killer"])
def test_same_adversary_for_any_number_of_threads(pool_size, pattern):
    a = keys_as(PATTERNS[pattern](250_000), "f8")
    a[::3] *= -1  # with zeros of both signs
    seen = set()
    for n in THREADS:
        pool_size(n)
        seen.add(
            (
                pb.par_sort(a).tobytes(),
                pb.par_sort(a, stable=True).tobytes(),
                pb.par_sort(a, descending=True).tobytes(),
                pb.par_sort(a, descending=True, stable=True).tobytes(),
            )
        )
    assert len(seen) == 1


# ---- out --------------------------------------------------------------------


def test_out():
    for shape, axis in (((200_000,), -1), ((300, 400), 0), ((300, 400), 1), ((300, 400), None)):
        a = values("f8", shape, 1)
        for options in BOTH_WAYS:
            expected = take_order(a, stable_order(a, axis, options.get("descending")), axis)
            out = np.empty(expected.shape)
            assert pb.par_sort(a, axis, out=out, **options) is out
            assert_same_values(out, expected)
            if axis is None:
                continue
            for b in (
                a.copy(),
                np.asfortranarray(a),
                np.repeat(a, 2, axis=-1)[..., ::2],
                a[..., ::-1].copy()[..., ::-1],
            ):
                assert pb.par_sort(b, axis, out=b, **options) is b
                assert_same_values(b, expected)
            b = a.astype(">f8")
            assert pb.par_sort(b, axis, out=b, **options) is b
            assert_same_values(b.astype("f8"), expected)


@pytest.mark.parametrize("n", [500, 100_000])
@pytest.mark.parametrize("dtype", ["f8", "i8", "i2", "D", "S7", "O"])
def test_out_that_overlaps(n, dtype):
    for shift in (1, n // 3):
        for options in ({}, {"stable": True}) if dtype == "O" else BOTH_WAYS:
            a = values("i8" if dtype == "O" else dtype, (n + shift,), 1).astype(dtype)
            source = a[:n].copy()
            head = a[:shift].copy()
            pb.par_sort(a[:n], out=a[shift:], **options)
            assert_sorted_from(source, a[shift:], **options)
            assert_same_bits(a[:shift], head)
    a = values("f8", (n,), 1)
    b = a.copy()
    pb.par_sort(b, out=b[::-1])
    assert_sorted_from(a, b[::-1])


def bad_outs(n, dtype):
    """What is no array of n items of this dtype that can be written."""
    locked = np.zeros(n, dtype)
    locked.flags.writeable = False
    return [
        (np.zeros(n - 1, dtype), ValueError),
        (np.zeros((n, 1), dtype), ValueError),
        (np.zeros((), dtype), ValueError),
        (np.broadcast_to(np.zeros(1, dtype), n), ValueError),
        (locked, ValueError),
        (np.zeros(n, "f4"), TypeError),
        (np.zeros(n, np.dtype(dtype).newbyteorder()), TypeError),
        (np.zeros(n, "u8"), TypeError),
        (np.zeros(n, object), TypeError),
        ([1], TypeError),
        (3, TypeError),
        ("a", TypeError),
    ]


@pytest.mark.parametrize("n", [100, 50_000])
def test_bad_out(n):
    a = values("f8", (n,), 1)
    before = a.copy()
    for out, error in bad_outs(n, "f8"):
        for options in ({}, {"descending": True}):
            with pytest.raises(error, match="out:"):
                pb.par_sort(a, out=out, **options)
        if isinstance(out, np.ndarray):
            assert not out.any()
    with pytest.raises(ValueError, match="out:"):
        pb.par_sort(a.reshape(-1, 10), None, out=np.zeros((n // 10, 10)))
    a.flags.writeable = False
    with pytest.raises(ValueError, match="out:"):
        pb.par_sort(a, out=a)
    assert_same_bits(a, before)


# ---- layouts ----------------------------------------------------------------


def test_layout_is_numpys():
    base = np.random.default_rng(1).random((60, 50, 40))
    for a in (
        np.asfortranarray(base[0]),
        base.transpose(2, 0, 1),
        base[:, ::2],
        base[::-1, :, ::-1],
        base.astype(">f8").T,
    ):
        for axis in (-1, *range(a.ndim)):
            for options in BOTH_WAYS:
                got, expected = pb.par_sort(a, axis, **options), np.sort(a, axis)
                assert got.strides == expected.strides
                assert_sorted_from(a, got, axis, **options)


def test_layout_that_repeats():
    for a in (
        np.broadcast_to(np.random.default_rng(1).random(40_000), (3, 40_000)),
        np.broadcast_to(np.random.default_rng(1).random((40_000, 1)), (40_000, 3)),
        np.lib.stride_tricks.sliding_window_view(np.random.default_rng(1).random(5000), 30),
    ):
        for axis in (None, 0, 1):
            check(a, axis)
            check(a, axis, descending=True)


@pytest.mark.parametrize("n", [100, 60_000])
def test_read_only(n):
    a = values("f8", (n,), 1)
    before = a.copy()
    a.flags.writeable = False
    assert check(a).flags.writeable
    assert check(a, descending=True).flags.writeable
    assert_same_bits(a, before)


# ---- what is no plain array of numbers ---------------------------------------


def fields(n):
    rng = np.random.default_rng(n)
    table = np.zeros(n, [("a", "i4"), ("b", "f8"), ("c", "S3")])
    table["a"], table["b"] = rng.integers(0, 9, n), rng.integers(0, 50, n)
    table["c"] = rng.integers(0, 99, n)
    return table


@pytest.mark.parametrize("n", [50, 3000])
def test_structured(n):
    for table in (fields(n), fields(n).reshape(2, -1), fields(n)[["b", "c"]], fields(2 * n)[::2]):
        first = table.dtype.names[0]
        for order in (None, first, "b", ["c", "b"], [*table.dtype.names[::-1]]):
            for axis in (-1, 0, None):
                # Of the long table, half of the ways.
                ways = ({}, {"stable": True}, {"kind": "stable"}, {"kind": "heapsort"})
                for options in ways if n < 100 else ways[len(table.dtype) % 2 :: 2]:
                    expected = np.sort(table, axis, order=order, **options)
                    got = pb.par_sort(table, axis, order=order, **options)
                    assert got.dtype == expected.dtype
                    assert got.tolist() == expected.tolist()
    table = fields(n)
    expected = np.sort(table, order="b")
    assert pb.par_sort(table, order="b", out=table) is table
    assert (table == expected).all()
    table = fields(n)
    big = table.astype([("a", ">i4"), ("b", ">f8"), ("c", "S3")])
    assert pb.par_sort(big, order=["b", "c", "a"]).tolist() == (
        np.sort(table, order=["b", "c", "a"]).tolist()
    )
    nested = np.zeros(n, [("x", [("y", "i2"), ("z", "f4")]), ("w", "i1", 3)])
    nested["x"]["y"] = np.random.default_rng(0).integers(0, 99, n)
    assert (pb.par_sort(nested, order="x") == np.sort(nested, order="x")).all()


@pytest.mark.parametrize("count", [15, 16, 17, 40])
def test_many_fields(count):
    n = 3000
    names = [f"f{i}" for i in range(count)]
    table = np.zeros(n, [(name, "?" if i % 2 else "u1") for i, name in enumerate(names)])
    for name in names[-3:]:
        table[name] = np.random.default_rng(len(name)).integers(0, 2, n)
    for order in (None, names[-1], names[::-1]):
        assert (pb.par_sort(table, order=order) == np.sort(table, order=order)).all()
        assert np.array_equal(
            pb.par_argsort(table, order=order, stable=True),
            np.argsort(table, order=order, stable=True),
        )


@pytest.mark.parametrize("n", [40, 20_000])
def test_objects(n):
    rng = np.random.default_rng(n)
    a = np.array([int(x) for x in rng.integers(0, 500, n)], object)
    a[::7] += 2**70
    a[1::7] = [float(x) + 0.5 for x in a[1::7]]
    for options in ({}, *({"kind": kind} for kind in KINDS), {"stable": True}):
        assert_same_bits(pb.par_sort(a, **options), np.sort(a, **options))
        b = a.copy()
        assert pb.par_sort(b, out=b, **options) is b
        assert_same_bits(b, np.sort(a, **options))
    square = a[: n // 4 * 4].reshape(4, -1)
    for axis in (0, 1, None):
        assert_same_bits(pb.par_sort(square, axis), np.sort(square, axis))
    texts = a.astype(str).astype(object)
    assert_same_bits(pb.par_sort(texts), np.sort(texts))


class Fragile:
    """Compares as its number, a few thousand times."""

    left = 0

    def __init__(self, number):
        self.number = number

    def __lt__(self, other):
        Fragile.left -= 1
        if Fragile.left < 0:
            raise KeyError("no more")
        return self.number < other.number


@pytest.mark.parametrize("n", [30, 20_000])
@pytest.mark.parametrize("compared", [0, 1, 17, 3000, 10**9])
def test_comparisons_that_raise(n, compared):
    """The error arrives, and the array has its own elements."""
    a = np.array([Fragile(x) for x in np.random.default_rng(1).integers(0, 99, n)], object)
    ids = sorted(map(id, a))
    for options in ({}, {"stable": True}, {"kind": "heapsort"}):
        before = list(a)
        outcomes = []
        for f in (np.sort, pb.par_sort):
            Fragile.left = compared
            try:
                outcomes.append([x.number for x in f(a, **options)])
            except KeyError as e:
                outcomes.append(str(e))
        assert outcomes[0] == outcomes[1]
        assert all(x is y for x, y in zip(a, before, strict=True))
        Fragile.left = compared
        try:
            pb.par_sort(a, out=a, **options)
        except KeyError:
            assert isinstance(outcomes[0], str)
        assert sorted(map(id, a)) == ids


@pytest.mark.parametrize("n", [30, 30_000])
@pytest.mark.parametrize("missing", ["none", "nan", "None", "text"])
def test_strings_of_variable_width(n, missing):
    rng = np.random.default_rng(n)
    made = {"nan": {"na_object": np.nan}, "None": {"na_object": None}, "text": {"na_object": "?"}}
    dtype = np.dtypes.StringDType(**made.get(missing, {}))
    # Longer and shorter than what fits into the element itself; not ASCII.
    texts = np.array([f"{x:x}" * (x % 9) + "äé" * (x % 2) for x in rng.integers(0, 500, n)], dtype)
    arrays_ = [texts]
    if missing != "none":
        holes = texts.copy()
        holes[::5] = dtype.na_object
        arrays_.append(holes)
    for a in arrays_:
        for options in ({}, {"stable": True}, {"kind": "mergesort"}, {"kind": "heapsort"}):
            try:
                expected = np.sort(a, **options)
            except Exception as e:
                with pytest.raises(type(e)):
                    pb.par_sort(a, **options)
            else:
                got = pb.par_sort(a, **options)
                assert got.dtype == expected.dtype
                assert list(map(str, got)) == list(map(str, expected))
                b = a.copy()
                assert pb.par_sort(b, out=b, **options) is b
                assert list(map(str, b)) == list(map(str, expected))


def refused_downwards():
    return {
        "structured": (fields(40), TypeError),
        "objects": (np.arange(40).astype(object), TypeError),
        "void": (np.arange(40).view("V8"), TypeError),
        "StringDType": (np.array(["b", "a"] * 20, np.dtypes.StringDType()), RuntimeError),
    }


@pytest.mark.parametrize("name", refused_downwards())
@pytest.mark.parametrize("repeats", [1, 1000])
def test_what_numpy_sorts_upwards_only(name, repeats):
    """Of an older NumPy, pyblitz refuses what a newer one does."""
    a, error = refused_downwards()[name]
    a = np.concatenate([a] * repeats)
    for f in [np.sort, pb.par_sort] if NUMPY_DESCENDS else [pb.par_sort]:
        for options in ({}, {"stable": True}):
            with pytest.raises(error):
                f(a, descending=True, **options)
    assert (a == np.concatenate([refused_downwards()[name][0]] * repeats)).all()


@pytest.mark.parametrize("n", [10, 50_000])
def test_items_of_no_bytes_and_void(n):
    for dtype in ("S", "U", "V"):
        a = np.zeros(n, [("x", dtype + "0"), ("y", "i1")])["x"]
        assert a.dtype.itemsize == 0
        for axis in (-1, None):
            got, expected = pb.par_sort(a, axis), np.sort(a, axis)
            assert got.dtype == expected.dtype
            assert got.shape == expected.shape
        if dtype != "V":
            got = pb.par_sort(a, descending=True)
            assert (got.dtype.kind, got.shape) == (dtype, (n,))
    raw = np.random.default_rng(0).integers(0, 256, (n, 3), dtype="u1").view("V3").reshape(n)
    for kind in KINDS:
        assert pb.par_sort(raw, kind=kind).tobytes() == np.sort(raw, kind=kind).tobytes()


def test_subclasses():
    matrix = np.random.default_rng(0).random((200, 300)).view(np.matrix)
    for axis in (0, 1, -1, None):
        got, expected = pb.par_sort(matrix, axis), np.sort(matrix, axis)
        assert type(got) is type(expected)
        assert_same_bits(got, expected)
    got = pb.par_sort(matrix, descending=True)
    assert type(got) is np.matrix
    assert_same_values(got, np.sort(matrix)[:, ::-1])
    for n in (20, 60_000):
        x = np.random.default_rng(n).permutation(n)
        masked = np.ma.masked_array(x, x % 3 == 0)
        got, expected = pb.par_sort(masked), np.sort(masked)
        assert type(got) is type(expected)
        assert got.tolist() == expected.tolist()
        with pytest.raises(ValueError, match="descending"):
            pb.par_sort(masked, descending=True)
        rec = fields(n).view(np.recarray)
        got, expected = pb.par_sort(rec, order="b"), np.sort(rec, order="b")
        assert type(got) is type(expected)
        assert got.tolist() == expected.tolist()

        class Mine(np.ndarray):
            pass

        assert type(pb.par_sort(x.view(Mine))) is Mine
        got = pb.par_sort(x.view(Mine), descending=True)
        assert type(got) is Mine
        assert got.tolist() == list(range(n))[::-1]


def test_what_is_like_an_array():
    class Like:
        def __array__(self, dtype=None, copy=None):
            return np.array([2, 3, 1], dtype)

    for a in (
        [2, 3, 1],
        (2, 3, 1),
        [[2, 1], [0, 5]],
        range(50_000, 0, -1),
        memoryview(b"bca"),
        array.array("d", [2, 3, 1]),
        Like(),
        ["b", "a"],
        [2.5, None][:1],
        [],
    ):
        expected = np.sort(a)
        assert_same_bits(pb.par_sort(a), expected)
        assert_same_values(pb.par_sort(a, descending=True), np.flip(expected, -1))
        out = np.empty(expected.shape, expected.dtype)
        assert pb.par_sort(a, out=out) is out
        assert_same_bits(out, expected)


def test_zero_dimensions():
    for a in (np.array(3), 3, np.float64(2)):
        got, expected = pb.par_sort(a, None), np.sort(a, None)
        assert_same_bits(got, expected)
        assert pb.par_sort(a, axis=None, descending=True).tolist() == expected.tolist()
        for axis in (-1, 0):
            with pytest.raises(np.exceptions.AxisError):
                pb.par_sort(a, axis)
            with pytest.raises(np.exceptions.AxisError):
                pb.par_sort(a, axis, descending=True)


class Foreign:
    def __array_function__(self, func, types, args, kwargs):
        return func, len(args), dict(kwargs)


def test_other_types_sort_themselves():
    assert pb.par_sort(Foreign())[0] is np.sort


def test_times_with_units():
    for unit in ("Y", "M", "W", "D", "h", "ns", "as", "25s"):
        for dtype in (f"M8[{unit}]", f"m8[{unit}]"):
            a = values(dtype, (40_000,), 1)
            for options in BOTH_WAYS:
                check(a, **options)
    check(values("m8", (40_000,), 1), descending=True)


def test_many_axes():
    a = values("i4", (2,) * 16, 1)
    for axis in (0, 7, -1, None):
        check(a, axis)
        check(a, axis, descending=True)
    a = values("i4", (1, 1, 50_000, 1), 1)
    for axis in range(4):
        check(a, axis, descending=True)


# ---- mistakes ---------------------------------------------------------------

BIG = np.zeros((200, 300))
TABLE = fields(9000)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(BIG, axis=2),
        lambda f: f(BIG, axis=-3),
        lambda f: f(BIG, axis="x"),
        lambda f: f(BIG, axis=1.5),
        lambda f: f(BIG, axis=(0,)),
        lambda f: f(BIG, kind="no such"),
        lambda f: f(BIG, kind=""),
        lambda f: f(BIG, kind=3),
        lambda f: f(BIG, kind="stable", stable=True),
        lambda f: f(BIG, kind="quicksort", stable=False),
        lambda f: f(BIG, stable=BIG),
        lambda f: f(BIG, order="a"),
        lambda f: f(BIG, order=["a", "b"]),
        lambda f: f(TABLE, order="no such"),
        lambda f: f(TABLE, order=["a", "a"]),
        lambda f: f(TABLE, order=3),
        lambda f: f(TABLE, axis=1),
        lambda f: f(np.array(3.0)),
        lambda f: f(None),
        lambda f: f([[1, 2], [3]]),
        lambda f: f(np.array([1, "a", None], object)),
        lambda f: f(np.array([1, "a", None] * 20_000, object)),
        lambda f: f(BIG, no_such=1),
        lambda f: f(BIG, -1, None, None, True),
    ],
)
def test_bad_input_raises_what_numpy_raises(call):
    before = TABLE.copy()
    with pytest.raises(Exception) as expected:  # noqa: PT011 - NumPy says which
        call(np.sort)
    with pytest.raises(type(expected.value)):
        call(pb.par_sort)
    with pytest.raises(type(expected.value)):
        call(lambda a, *args, **options: pb.par_sort(a, *args, out=np.copy(a), **options))
    assert not BIG.any()
    assert (before == TABLE).all()
    assert pb.par_sort([2, 1]).tolist() == [1, 2]


@pytest.mark.parametrize("n", [100, 60_000])
def test_bad_input_downwards(n):
    """As NumPy 2.5, whatever NumPy there is."""
    a = np.arange(float(n))
    for options, error in (
        ({"axis": 1}, np.exceptions.AxisError),
        ({"axis": "x"}, TypeError),
        ({"order": "a"}, ValueError),
        ({"kind": "no such"}, ValueError),
        ({"kind": "stable", "stable": True}, ValueError),
        ({"kind": 3}, TypeError),
    ):
        for f in [np.sort, pb.par_sort] if NUMPY_DESCENDS else [pb.par_sort]:
            with pytest.raises(error):
                f(a, descending=True, **options)
        with pytest.raises(error):
            pb.par_sort(a, descending=True, out=a, **options)
        assert (a == np.arange(n)).all()
    with pytest.raises(ValueError, match="ambiguous"):
        pb.par_sort(a, descending=a)


@pytest.mark.parametrize("n", [100, 120_000])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind])
def test_a_kind_and_a_direction_are_refused(n, kind):
    """As NumPy 2.5 does, be the direction upwards; None is no direction."""
    a = np.arange(float(n))
    for f in [np.sort, pb.par_sort] if NUMPY_DESCENDS else [pb.par_sort]:
        for descending in (True, False):
            with pytest.raises(ValueError, match="kind"):
                f(a, kind=kind, descending=descending)
    assert (pb.par_sort(a, kind=kind, descending=None) == np.arange(n)).all()


def test_any_truth_is_a_direction():
    a = np.arange(50_000)
    for descending in (True, 1, np.True_, "x", [0]):
        assert (pb.par_sort(a, descending=descending) == a[::-1]).all()
        assert (pb.par_sort(a[:9], descending=descending) == a[:9][::-1]).all()
    for descending in (None, False, 0, np.False_, "", []):
        assert (pb.par_sort(a[::-1], descending=descending) == a).all()
        assert (pb.par_sort(a[:9][::-1], descending=descending) == a[:9]).all()


@pytest.mark.parametrize("field", ["g", "G"])
@pytest.mark.parametrize("n", [600, 40_000])
def test_records_with_extended_precision(field, n):
    """Which no word holds; such fields were once left out of the comparison."""
    records = np.zeros(n, [("a", "i4"), ("b", field)])
    rng = np.random.default_rng(n)
    records["a"] = rng.integers(0, 3, n)
    records["b"] = rng.standard_normal(n)
    got = pb.par_sort(records)
    assert np.array_equal(got["b"], np.sort(records)["b"])
    assert np.array_equal(got["a"], np.sort(records)["a"])


@pytest.mark.races
def test_another_thread_writes_what_is_sorted():
    """Nothing to rely on comes of it, but nothing is written out of bounds: buckets were once
    filled beyond what had been counted for them."""
    n = 400_000
    a = np.random.default_rng(0).integers(0, 2**62, n)
    low, high = np.zeros(n // 2, "i8"), np.full(n // 2, 2**62)
    done = threading.Event()

    def write():
        while not done.is_set():
            a[n // 2 :] = low
            a[n // 2 :] = high

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(40):
            pb.par_sort(a)
            assert (np.sort(pb.par_argsort(a)) == np.arange(n)).all()
            pb.par_sort(a.view("f8"), stable=True)
    finally:
        done.set()
        writer.join()
    assert np.array_equal(pb.par_sort(a), np.sort(a))


@pytest.mark.races
@pytest.mark.parametrize("dtype", ["i8", "f8", "f4"])
@pytest.mark.parametrize("way", [AT_ONCE, IN_PARTS, IN_PIECES])
def test_another_thread_writes_what_is_sorted_in_place(way, dtype, leaves_take, pool_size):
    """Leaf sorts trust what they compare: they get words that nobody else has. Between zeros with
    a sign that were counted, and what is there when they are written, everything may change.
    Meanwhile nobody sees what no item is: the array is not the room in which words are sorted."""
    leaves_take(*way)
    pool_size(2)
    n = 40_000
    a = np.zeros(n + 2, dtype)
    inside, values = a[1:-1], np.array([-0.0, 0.0, -1.0, 5.0]).astype(dtype)
    a[0] = a[-1] = 77
    done = threading.Event()
    ones = np.ones(n, dtype)

    def write():
        rng = np.random.default_rng(0)
        while not done.is_set():
            inside[rng.integers(0, n, 5000)] = rng.choice(values, 5000)
            # By ufuncs, here and below: a memmove that is preempted may leave half an item.
            np.multiply(ones, rng.choice(values), out=inside)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(200):
            pb.par_sort(inside, out=inside)
            assert dtype != "i8" or np.isin(inside * ones, values).all()
    finally:
        done.set()
        writer.join()
    assert a[0] == a[-1] == 77
    assert np.isin(inside, values).all()


@pytest.mark.races
@pytest.mark.parametrize("dtype", ["i4", "i8", "f8"])
@pytest.mark.parametrize("threads", [2, 3])
def test_another_thread_writes_what_goes_to_a_few_parts(dtype, threads, leaves_take, pool_size):
    """Words that are there once, of which there are others when they are moved than when they
    were counted: into the result, and in place."""
    leaves_take(*IN_PARTS)
    pool_size(threads)
    n = 60_000
    a, out = np.zeros(n + 2, dtype), np.zeros(n + 2, dtype)
    a[0] = a[-1] = out[0] = out[-1] = 77
    many = np.random.default_rng(0).permutation(n).astype(dtype)
    done = threading.Event()

    def write():
        rng = np.random.default_rng(0)
        while not done.is_set():
            # By a ufunc: a memmove that is preempted may leave half an item.
            np.positive(many, out=a[1:-1])
            a[1 + rng.integers(0, n, 1000)] = rng.choice(many, 1000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(150):
            pb.par_sort(a[1:-1], out=out[1:-1])
            assert out[~np.isin(out, np.r_[many, 0])].tolist() == []
            pb.par_sort(a[1:-1], out=a[1:-1])
    finally:
        done.set()
        writer.join()
    assert a[0] == a[-1] == out[0] == out[-1] == 77


@pytest.mark.races
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_another_thread_writes_where_parts_are_sorted(dtype, leaves_take, pool_size):
    """NaNs, which the leaf sort of floats knows nothing of, into the result: that is worth nothing
    then, and the next one is right."""
    leaves_take(*IN_PARTS_OF_FLOATS)
    pool_size(2)
    n = 60_000
    a = np.random.default_rng(0).permutation(n).astype(dtype)
    out = np.full(n + 2, 77, dtype)
    done = threading.Event()

    def write():
        rng = np.random.default_rng(0)
        while not done.is_set():
            out[1 + rng.integers(0, n, 1000)] = np.nan

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(150):
            pb.par_sort(a, out=out[1:-1])
    finally:
        done.set()
        writer.join()
    assert out[0] == out[-1] == 77
    pb.par_sort(a, out=out[1:-1])
    assert np.array_equal(out[1:-1], np.arange(n, dtype=dtype))


@pytest.mark.parametrize("sign", [-1, 1])
def test_one_value_and_few_others(sign):
    """The others were once in one bucket with it, at every depth, with a copy for each."""
    n = 4_000_000
    rng = np.random.default_rng(0)
    a = np.zeros(n, "i8")
    at = rng.integers(0, n, 4000)
    a[at] = sign * (5 + at)
    out = np.zeros(n, "i8")
    program = f"""
import numpy as np, pyblitz as pb
a, out = np.zeros({n}, "i8"), np.zeros({n}, "i8")
at = np.random.default_rng(0).integers(0, {n}, 4000)
a[at] = {sign} * (5 + at)
pb.par_sort(a[:100_000])
peak = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024
before = peak()
pb.par_sort(a, out=out)
assert peak() - before < 1.5 * a.nbytes, peak() - before
"""
    pb.par_sort(a, out=out)
    assert np.array_equal(out, np.sort(a))
    if sys.platform == "linux":
        subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", ">u2", "?"])
@pytest.mark.parametrize("axis", [np.int64(0), 1])
def test_short_rows_of_short_integers(dtype, axis):
    """Shared, too, though NumPy's kernels sort each."""
    a = np.random.default_rng(2).integers(0, 2**16, (400, 300)).astype(dtype)
    with pb.stats() as s:
        got = pb.par_sort(a, axis)
    assert sum(w.busy for w in s.workers) > 0
    assert_same_bits(got, np.sort(a, axis))
    assert_same_bits(pb.par_sort(a, axis, kind="stable"), np.sort(a, axis))


def test_what_is_left_to_numpy_is_named():
    from pyblitz.arrays.front import left_alone

    a = np.arange(50_000).astype(object)
    before = left_alone().get(("par_sort", "dtype object"), 0)
    pb.par_sort(a)
    assert left_alone()["par_sort", "dtype object"] == before + 1
    keys = (np.arange(50_000), a)
    before = left_alone().get(("par_lexsort", "dtype object"), 0)
    pb.par_lexsort(keys)
    assert left_alone()["par_lexsort", "dtype object"] == before + 1


@pytest.mark.parametrize("n", [10, 3000])
def test_records_keep_the_byte_order_of_their_fields(n):
    a = np.zeros(n, [("a", ">i2"), ("b", "<f4"), ("c", ">i8")])
    a["a"] = np.random.default_rng(0).integers(-9, 9, n)
    a["c"] = np.arange(n)
    got = pb.par_sort(a)
    assert got.dtype == a.dtype
    assert_same_bits(got, np.sort(a))
