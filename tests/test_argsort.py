"""par_argsort is np.argsort, stable, in both directions."""

from __future__ import annotations

import array

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
    is_stable,
    keys_as,
    stable_order,
    take_order,
)
from test_sort import BOTH_WAYS, OPTIONS, Foreign, Fragile, bad_outs, fields, refused_downwards

import pyblitz as pb

# From here on the engine sorts, which is stable whatever was asked for.
LARGE = 100_000


@pytest.mark.parametrize("n", [250, 1_000, 5_000, 8_191, 8_192, 20_000])
def test_keys_of_all_magnitudes(n):
    """Few are sorted by their leading bits, in which many tie; of more there is a sample."""
    rng = np.random.default_rng(n)
    small = rng.integers(0, 1 << rng.integers(1, 63, n))
    for a in (
        small,
        -small,
        small.astype(np.uint64),
        np.ldexp(rng.random(n), rng.integers(-999, 999, n)),
    ):
        for down in (False, True):
            got = pb.par_argsort(a, descending=down)
            np.testing.assert_array_equal(got, stable_order(a, descending=down))


def assert_permutation(perm, n):
    seen = np.zeros(n, bool)
    seen[perm] = True
    assert len(perm) == n
    assert seen.all()


def assert_order_of(a, got, axis=-1, kind=None, stable=None, descending=None):
    """``got`` sorts ``a``: stably, unless NumPy was free to do otherwise."""
    expected = stable_order(a, axis, descending)
    assert got.dtype == np.intp
    assert got.shape == expected.shape
    if is_stable(kind, stable) or (got.shape == (got.size,) and got.size >= LARGE):
        assert np.array_equal(got, expected)
    elif not np.array_equal(got, expected):
        along = axis or 0
        every = np.arange(got.shape[along])
        assert (np.moveaxis(np.sort(got, along), along, -1) == every).all()
        assert_same_values(take_order(a, got, axis), take_order(a, expected, axis))


def check(a, axis=-1, **options):
    got = pb.par_argsort(a, axis, **options)
    assert type(got) is np.ndarray
    assert_order_of(a, got, axis, **options)
    return got


@settings(max_examples=80)
@given(
    arrays(dtypes=tuple(DTYPES), shapes=tuple(s for s in SHAPES if s)),
    st.sampled_from(OPTIONS),
    st.sampled_from(["new", "out", "strided out"]),
    st.data(),
)
def test_argsort(a, options, where, data):
    axis = data.draw(st.sampled_from([None, *range(-a.ndim, a.ndim)]))
    before = a.copy()
    if where == "new":
        got = check(a, axis, **options)
        assert got.strides == np.argsort(a, axis).strides or got.size <= 1
    else:
        shape = (a.size,) if axis is None else a.shape
        out = np.empty((*shape[:-1], 2 * shape[-1]), np.intp)[..., :: 1 + (where != "out")]
        out = out[..., : shape[-1]]
        assert pb.par_argsort(a, axis, out=out, **options) is out
        assert_order_of(a, out, axis, **options)
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


@pytest.mark.parametrize("n", [3, 1000])
def test_a_kind_that_is_no_string(n):
    for kind in (np.array("stable"), np.array(["stable", "x"]), 3):
        with pytest.raises(TypeError) as numpys:
            np.argsort(np.arange(n), kind=kind)
        with pytest.raises(TypeError) as ours:
            pb.par_argsort(np.arange(n), kind=kind)
        assert str(ours.value) == str(numpys.value)


@pytest.mark.parametrize("dtype", ["i8", "f8", "u4", "f4", "i2", "?"])
def test_sizes_around_a_million(dtype):
    base = values(dtype, (max(AROUND_A_MILLION),), 6)
    for i, n in enumerate(AROUND_A_MILLION):
        check(base[:n], **BOTH_WAYS[(i + len(dtype)) % 4])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [LARGE, LARGE + 33_333])
def test_every_kind_is_stable(dtype, n):
    """What NumPy leaves open is decided."""
    if np.dtype(dtype).itemsize > 16:
        n = LARGE
    a = values(dtype, (n,), 4)
    expected = stable_order(a)
    for kind in KINDS:
        assert np.array_equal(pb.par_argsort(a, kind=kind), expected)
    for stable in (True, False, None):
        assert np.array_equal(pb.par_argsort(a, stable=stable), expected)
    assert np.array_equal(pb.par_argsort(a, descending=True), stable_order(a, descending=True))
    for few in (10, 20, 63, 64, 65, 1000, 5000):
        expected = stable_order(a[:few])
        for kind in KINDS:
            assert np.array_equal(pb.par_argsort(a[:few], kind=kind), expected)


def check_orders_and_groups(a, pool_size):
    """In both directions, with any number of threads; returns the order."""
    expected = np.argsort(a, kind="stable")
    downwards = stable_order(a, descending=True)
    key = a[expected]
    same = (key[1:] == key[:-1]) | ((key[1:] != key[1:]) & (key[:-1] != key[:-1]))
    starts = np.flatnonzero(np.append(True, ~same))
    for threads in THREADS:
        pool_size(threads)
        assert np.array_equal(pb.par_argsort(a), expected)
        assert np.array_equal(pb.par_argsort(a, descending=True), downwards)
        groups = pb.par_group_by(a)
        assert np.array_equal(groups.order, expected)
        assert np.array_equal(groups.starts, starts)
    return expected


@pytest.mark.parametrize(
    ("dtype", "distinct"),
    [(t, k) for t in ("i8", "u4", "f8", "M8[s]") for k in (2, 3, 256, 257, 1000, 4096, 4097)]
    + [("u1", 255), ("u1", 256), ("f2", 2), ("f2", 3), ("f4", 3)],
)
def test_few_distinct_items(dtype, distinct, pool_size):
    """Counted or sorted: from 16 items for each value of the bits that vary on, and up to 4,096 of
    these; in one block and in several."""
    rng = np.random.default_rng(distinct)
    enough = 16 << (distinct - 1).bit_length()
    for n in (enough - 1, enough, enough + 1, 150_001):
        some = rng.integers(0, distinct, n)
        some[:2] = 0, distinct - 1
        a = some - distinct // 3 if np.dtype(dtype).kind != "u" else some
        a = a.astype(dtype)
        if dtype == "f2":
            a[a > 0] = np.nan
        check_orders_and_groups(a, pool_size)
        assert np.array_equal(pb.par_argsort(a[::-2]), np.argsort(a[::-2], kind="stable"))
        both = (some // 3, some % 3)
        assert np.array_equal(pb.par_lexsort(both), np.lexsort(both))
        # What ties in all of the first word is ordered by a few values.
        ties = (some, np.full(n, b"much the same"))
        assert np.array_equal(pb.par_lexsort(ties), np.lexsort(ties))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["i4", "u8", "f4", "f8", "M8[s]"])
@pytest.mark.parametrize("distinct", [2, 512, 4096, 4097])
def test_few_values_of_any_bits(dtype, distinct, pool_size):
    """From 65,536 items and 128 for each value on, the values are numbered, and their numbers
    counted; more values, the last of which may be late, and what lies apart are sorted."""
    rng = np.random.default_rng(distinct)
    some = np.unique(rng.integers(0, 256, (2 * distinct, 8), np.uint8).view(dtype))
    some = rng.permutation(some[some == some])[:distinct]
    if some.dtype.kind == "f":
        some[:2] = np.nan, -0.0
    elif some.dtype.kind == "M":
        some[0] = "NaT"
    enough = max(65_536, 128 * distinct)
    for n, late in ((enough - 1, False), (enough, False), (enough + 70_000, True)):
        which = rng.integers(0, distinct, n)
        if late:
            # Most items are of few values, so that a sample does not show how many there are.
            which[: -2 * distinct] %= 5
            which[-distinct:] = np.arange(distinct)
        a = some[which]
        if some.dtype.kind == "f":
            a[(a == 0) & (rng.random(n) < 0.5)] = 0.0
            a[np.isnan(a) & (rng.random(n) < 0.5)] = -np.nan
        expected = check_orders_and_groups(a, pool_size)
        apart = np.empty(n, np.dtype([("x", "u1"), ("a", dtype)]))
        apart["a"] = a
        assert np.array_equal(pb.par_argsort(apart["a"]), expected)
        packed = np.frombuffer(b"." + a.tobytes(), np.uint8)[1:].view(dtype)
        assert np.array_equal(pb.par_argsort(packed), expected)


@pytest.mark.parametrize("dtype", ["i8", "f8", "u4", "f4", "M8[ns]"])
def test_adversaries(dtype):
    for i, (name, a) in enumerate(adversaries(dtype, 140_000)):
        for options in BOTH_WAYS[i % 2 :: 2]:
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
def test_two_neighbours_out_of_order_or_equal_anywhere(dtype):
    """Whether it rises or falls is asked by blocks, and from each to the next; of equals the
    first comes first, so that they do not fall."""
    n = 140_000
    for risen in (np.arange(n).astype(dtype), np.arange(n)[::-1].astype(dtype)):
        a = risen.copy()
        for k in (1, 2, 255, 256, 1000, *range(65_530, 65_542), 131_071, 131_072, 131_073, n - 1):
            for pair in ((risen[k], risen[k - 1]), (risen[k], risen[k])):
                a[k - 1], a[k] = pair
                assert np.array_equal(pb.par_argsort(a), stable_order(a)), k
                a[k - 1], a[k] = risen[k - 1], risen[k]


@pytest.mark.parametrize("dtype", ["i8", "f8", "S20"])
def test_ties_of_what_is_compared_first(dtype):
    """Keys that agree in their first bits, and all of whose groups have to be refined."""
    n = 120_000
    r = np.random.default_rng(0)
    for groups, inside in ((1, n), (2, 3), (300, 300), (n, 2), (40, 10**9)):
        keys = (r.integers(0, groups, n) << 44) + r.integers(0, inside, n)
        a = keys_as(keys, dtype)
        for options in BOTH_WAYS:
            check(a, **options)


# ---- stability, without a reference -----------------------------------------


@pytest.mark.parametrize("dtype", ["i1", "i8", "u4", "f2", "f4", "f8", "D", "M8[s]", "S7", "U3"])
@pytest.mark.parametrize("distinct", [1, 2, 16, 1000])
def test_tagged_keys(dtype, distinct):
    """Where neighbours are equal, the tags (their places) rise, in both directions."""
    for n in (1000, 40_000, 150_000):
        keys = np.random.default_rng(n).integers(0, distinct, n)
        a = keys_as(keys, dtype)
        if np.dtype(dtype).kind in "fc":
            a[keys == 0] *= -1.0  # zeros of both signs are equal
            a[np.random.default_rng(1).random(n) < 0.2] = np.nan
        if np.dtype(dtype).kind in "mM":
            a[np.random.default_rng(1).random(n) < 0.2] = "NaT"
        for descending in (False, True):
            perm = pb.par_argsort(a, stable=True, descending=descending)
            assert_permutation(perm, n)
            got = a[perm]
            missing = np.zeros(n, bool) if got.dtype.kind in "iuSU" else got != got
            assert (missing[1:] >= missing[:-1]).all()
            first, second = got[:-1], got[1:]
            with np.errstate(invalid="ignore"):
                ordered = first > second if descending else first < second
            equal = (first == second) | (missing[:-1] & missing[1:])
            assert (ordered | equal | missing[1:]).all()
            assert (np.diff(perm)[equal] > 0).all()


def test_signs_of_zeros_and_of_missing_do_not_count():
    for n in (2000, 130_000):
        for dtype in ("f2", "f4", "f8", "g", "F", "D"):
            a = np.where(np.arange(n) % 2, 0.0, -0.0).astype(dtype)
            assert np.array_equal(pb.par_argsort(a, stable=True), np.arange(n))
            assert np.array_equal(pb.par_argsort(a, stable=True, descending=True), np.arange(n))
            a = np.where(np.arange(n) % 3, np.nan, -np.nan).astype(dtype)
            assert np.array_equal(pb.par_argsort(a, stable=True), np.arange(n))
            assert np.array_equal(pb.par_argsort(a, stable=True, descending=True), np.arange(n))


@pytest.mark.parametrize("n", [500, 120_000])
def test_any_byte_but_zero_is_true(n):
    """By the byte or by its truth: either is sorted."""
    a = (np.arange(n) % 5).astype("u1").view("?")
    for descending in (False, True):
        got = pb.par_argsort(a, descending=descending)
        assert_permutation(got, n)
        truth = a.view("u1")[got] != 0
        assert truth.tolist() == sorted(truth.tolist(), reverse=descending)


# ---- axes, layouts, threads -------------------------------------------------


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
    check(a.T.copy(), 0, stable=True, descending=True)
    check(np.asfortranarray(a), stable=True)


@pytest.mark.parametrize("dtype", ["i8", "f4", "D"])
def test_few_long_rows(dtype):
    for i, shape in enumerate([(2, 70_000), (3, 40_000), (7, 33_000)]):
        a = values(dtype, shape, 3)
        for options in BOTH_WAYS[i % 2 :: 2]:
            check(a, **options)
        check(a.T.copy(), 0, stable=True)
        check(a.T.copy(), 0, stable=True, descending=True)
    check(a, None, descending=True)


def test_rows_of_one_element_and_none():
    for shape in ((0,), (0, 4), (4, 0), (50_000, 1), (1, 1, 1), (200, 0, 300)):
        for axis in (None, *range(len(shape))):
            check(np.ones(shape), axis)
            check(np.ones(shape), axis, descending=True)


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
                got = check(a, axis, **options)
                assert got.strides == np.argsort(a, axis).strides


def test_layout_that_repeats():
    for a in (
        np.broadcast_to(np.random.default_rng(1).random(40_000), (3, 40_000)),
        np.broadcast_to(np.random.default_rng(1).random((40_000, 1)), (40_000, 3)),
        np.lib.stride_tricks.sliding_window_view(np.random.default_rng(1).random(5000), 30),
    ):
        for axis in (None, 0, 1):
            check(a, axis)
            check(a, axis, descending=True)


@pytest.mark.parametrize("n", [100, 70_000])
def test_read_only_strided_and_misaligned(n):
    for dtype in ("f8", "i4", "S7", "D", ">i2"):
        a = values(dtype, (n,), 1)
        raw = np.empty(a.nbytes + 1, "u1")
        misaligned = raw[1:].view(a.dtype)
        misaligned[:] = a
        locked = a.copy()
        locked.flags.writeable = False
        for i, x in enumerate((locked, misaligned, np.repeat(a, 2)[::2], a[::-1].copy()[::-1])):
            for options in BOTH_WAYS if n == 100 else BOTH_WAYS[i % 2 :: 2]:
                assert check(x, **options).flags.writeable
            assert_same_bits(x, a)


@pytest.mark.parametrize(
    "dtype", ["i8", "f8", "f4", "u2", "f2", "i1", "D", "g", "S20", "U3", ">i4"]
)
def test_same_for_any_number_of_threads(pool_size, dtype):
    a = values(dtype, (70_000,), 1)
    rows = values(dtype, (120, 600), 2)
    seen = set()
    for n in THREADS:
        pool_size(n)
        made = []
        for x in (a, rows):
            for options in BOTH_WAYS:
                made.append(pb.par_argsort(x, **options))
                made.append(pb.par_argsort(x, 0, **options))
        seen.add(tuple(x.tobytes() for x in made))
    assert len(seen) == 1


@pytest.mark.parametrize("pattern", ["zipf", "all equal", "one heavy value", "median-of-3 killer"])
def test_same_adversary_for_any_number_of_threads(pool_size, pattern):
    a = keys_as(PATTERNS[pattern](250_000), "f8")
    a[::3] *= -1  # with zeros of both signs
    expected = [stable_order(a), stable_order(a, descending=True)]
    for n in THREADS:
        pool_size(n)
        for _ in range(2):
            assert np.array_equal(pb.par_argsort(a), expected[0])
            assert np.array_equal(pb.par_argsort(a, descending=True), expected[1])


# ---- out --------------------------------------------------------------------


@pytest.mark.parametrize("n", [900, 120_000])
def test_out(n):
    a = values("f8", (n,), 1)
    for options in BOTH_WAYS:
        for x, axis in ((a, -1), (a.reshape(30, -1), 0), (a.reshape(-1, 30), 1), (a, None)):
            shape = x.shape
            for out in (
                np.empty(shape, np.intp),
                np.empty(shape, np.intp, order="F"),
                np.empty((*shape, 2), np.intp)[..., 0],
            ):
                assert pb.par_argsort(x, axis, out=out, **options) is out
                assert_order_of(x, out, axis, **options)
    square = a.reshape(30, -1)
    out = np.empty(n, np.intp)
    assert pb.par_argsort(square, None, out=out) is out
    assert_order_of(square, out, None)


@pytest.mark.parametrize("n", [900, 120_000])
def test_out_that_overlaps(n):
    a = values("i8", (n + 7,), 1).astype(np.intp)
    for options in BOTH_WAYS:
        for target, source in (
            (lambda x: x[:n], lambda x: x[:n]),
            (lambda x: x[7:], lambda x: x[:n]),
            (lambda x: x[:n][::-1], lambda x: x[:n]),
        ):
            b = a.copy()
            before = source(a)
            out = target(b)
            assert pb.par_argsort(source(b), out=out, **options) is out
            assert_order_of(before, out, **options)


@pytest.mark.parametrize("n", [100, 50_000])
def test_bad_out(n):
    a = values("f8", (n,), 1)
    before = a.copy()
    for out, error in [
        *bad_outs(n, np.intp),
        (np.zeros(n), TypeError),
        (np.zeros(n, "i4"), TypeError),
    ]:
        for options in ({}, {"descending": True}):
            with pytest.raises(error, match="out:"):
                pb.par_argsort(a, out=out, **options)
        if isinstance(out, np.ndarray):
            assert not out.any()
    with pytest.raises(ValueError, match="out:"):
        pb.par_argsort(a.reshape(-1, 10), None, out=np.zeros((n // 10, 10), np.intp))
    assert_same_bits(a, before)


# ---- what is no plain array of numbers ---------------------------------------


@pytest.mark.parametrize("n", [50, 3000])
def test_structured(n):
    for table in (fields(n), fields(n).reshape(2, -1), fields(n)[["b", "c"]], fields(2 * n)[::2]):
        first = table.dtype.names[0]
        for order in (None, first, "b", ["c", "b"], [*table.dtype.names[::-1]]):
            for axis in (-1, 0, None):
                expected = np.argsort(table, axis, order=order, kind="stable")
                got = pb.par_argsort(table, axis, order=order, stable=True)
                assert got.dtype == expected.dtype
                assert np.array_equal(got, expected)
                for kind in KINDS if n < 100 else KINDS[len(table.dtype) % 2 :: 2]:
                    got = pb.par_argsort(table, axis, kind, order)
                    assert_same_values(np.sort(got, axis), np.sort(expected, axis))
                    a = table.ravel() if axis is None else table
                    taken = [np.take_along_axis(a, perm, axis or 0) for perm in (got, expected)]
                    assert taken[0].tolist() == taken[1].tolist()


@pytest.mark.parametrize("n", [50, 20_000])
def test_order_by_one_field_is_stable(n):
    """The other fields break ties; then equal elements keep their order."""
    table = np.zeros(n, [("a", "i4"), ("b", "i4")])
    table["a"] = np.random.default_rng(1).integers(0, 5, n)
    perm = pb.par_argsort(table, order="a", stable=True)
    assert np.array_equal(perm, np.argsort(table["a"], kind="stable"))
    table["b"] = np.arange(n)[::-1]
    perm = pb.par_argsort(table, order="a", stable=True)
    assert np.array_equal(perm, np.lexsort([table["b"], table["a"]]))


@pytest.mark.parametrize("n", [40, 20_000])
def test_objects(n):
    a = np.array([int(x) for x in np.random.default_rng(n).integers(0, 500, n)], object)
    a[::7] += 2**70
    a[1::7] = [float(x) + 0.5 for x in a[1::7]]
    expected = np.argsort(a, kind="stable")
    for options in ({"kind": "stable"}, {"kind": "mergesort"}, {"stable": True}):
        assert np.array_equal(pb.par_argsort(a, **options), expected)
    for kind in KINDS:
        got = pb.par_argsort(a, kind=kind)
        assert_permutation(got, n)
        assert a[got].tolist() == a[expected].tolist()
    square = a[: n // 4 * 4].reshape(4, -1)
    for axis in (0, 1, None):
        assert np.array_equal(
            pb.par_argsort(square, axis, stable=True), np.argsort(square, axis, stable=True)
        )


@pytest.mark.parametrize("n", [30, 20_000])
@pytest.mark.parametrize("compared", [0, 1, 17, 3000, 10**9])
def test_comparisons_that_raise(n, compared):
    """The error arrives, and nothing has moved."""
    a = np.array([Fragile(x) for x in np.random.default_rng(1).integers(0, 99, n)], object)
    before = list(a)
    outcomes = []
    for f in (np.argsort, pb.par_argsort):
        Fragile.left = compared
        try:
            outcomes.append(f(a, stable=True).tolist())
        except KeyError as e:
            outcomes.append(str(e))
    assert outcomes[0] == outcomes[1]
    assert all(x is y for x, y in zip(a, before, strict=True))


@pytest.mark.parametrize("n", [30, 30_000])
@pytest.mark.parametrize("missing", ["none", "nan", "None", "text"])
def test_strings_of_variable_width(n, missing):
    rng = np.random.default_rng(n)
    made = {"nan": {"na_object": np.nan}, "None": {"na_object": None}, "text": {"na_object": "?"}}
    dtype = np.dtypes.StringDType(**made.get(missing, {}))
    a = np.array([f"{x:x}" * (x % 9) + "äé" * (x % 2) for x in rng.integers(0, 500, n)], dtype)
    if missing != "none":
        a[::5] = dtype.na_object
    try:
        expected = np.argsort(a, stable=True)
    except Exception as e:
        with pytest.raises(type(e)):
            pb.par_argsort(a, stable=True)
        with pytest.raises(type(e)):
            pb.par_argsort(a)
    else:
        assert np.array_equal(pb.par_argsort(a, stable=True), expected)
        got = pb.par_argsort(a)
        assert_permutation(got, n)
        assert list(map(str, a[got])) == list(map(str, a[expected]))


@pytest.mark.parametrize("name", refused_downwards())
@pytest.mark.parametrize("repeats", [1, 1000])
def test_what_numpy_sorts_upwards_only(name, repeats):
    """Of an older NumPy, pyblitz refuses what a newer one does."""
    a, error = refused_downwards()[name]
    a = np.concatenate([a] * repeats)
    for f in [np.argsort, pb.par_argsort] if NUMPY_DESCENDS else [pb.par_argsort]:
        for options in ({}, {"stable": True}):
            with pytest.raises(error):
                f(a, descending=True, **options)


@pytest.mark.parametrize("n", [10, 50_000])
def test_items_of_no_bytes_and_void(n):
    for dtype in ("S", "U", "V"):
        a = np.zeros(n, [("x", dtype + "0"), ("y", "i1")])["x"]
        assert a.dtype.itemsize == 0
        for axis in (-1, None):
            got = pb.par_argsort(a, axis, stable=True)
            assert np.array_equal(got, np.argsort(a, axis, stable=True))
    raw = np.random.default_rng(0).integers(0, 4, (n, 3), dtype="u1").view("V3").reshape(n)
    expected = np.argsort(raw, stable=True)
    assert np.array_equal(pb.par_argsort(raw, stable=True), expected)
    got = pb.par_argsort(raw)
    assert_permutation(got, n)
    assert raw[got].tobytes() == raw[expected].tobytes()


def test_subclasses():
    matrix = np.random.default_rng(0).random((200, 300)).view(np.matrix)
    for axis in (0, 1, -1, None):
        got, expected = pb.par_argsort(matrix, axis), np.argsort(matrix, axis)
        assert type(got) is type(expected)
        assert_same_bits(got, expected)
    got = pb.par_argsort(matrix, descending=True)
    assert type(got) is np.matrix
    assert_same_values(np.asarray(got), np.asarray(np.argsort(matrix))[:, ::-1])
    for n in (20, 120_000):
        x = np.random.default_rng(n).permutation(n)
        masked = np.ma.masked_array(x, x % 3 == 0)
        got, expected = pb.par_argsort(masked, kind="stable"), np.argsort(masked, kind="stable")
        assert type(got) is type(expected)
        assert got.tolist() == expected.tolist()
        with pytest.raises(ValueError, match="descending"):
            pb.par_argsort(masked, descending=True)
        rec = fields(n // 20).view(np.recarray)
        got, expected = (f(rec, order="b", stable=True) for f in (pb.par_argsort, np.argsort))
        assert type(got) is type(expected)
        assert got.tolist() == expected.tolist()

        class Mine(np.ndarray):
            pass

        for options in ({}, {"stable": True}):
            got, expected = (f(x.view(Mine), **options) for f in (pb.par_argsort, np.argsort))
            assert type(got) is type(expected)
            assert got.tolist() == expected.tolist()
        got = pb.par_argsort(x.view(Mine), descending=True)
        assert got.tolist() == expected.tolist()[::-1]


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
        [],
    ):
        expected = np.argsort(a)
        assert_same_bits(pb.par_argsort(a), expected)
        assert_same_values(pb.par_argsort(a, descending=True), np.flip(expected, -1))
        out = np.empty(expected.shape, np.intp)
        assert pb.par_argsort(a, out=out) is out
        assert_same_bits(out, expected)


def test_zero_dimensions():
    """NumPy's rules for one number: np.argsort has its own."""
    for a in (np.array(3), 3, np.float64(2)):
        for axis in (None, -1, 0, 1, -2):
            try:
                expected = np.argsort(a, axis)
            except Exception as e:
                with pytest.raises(type(e)):
                    pb.par_argsort(a, axis)
            else:
                assert_same_bits(pb.par_argsort(a, axis), expected)
                assert pb.par_argsort(a, axis, descending=True).tolist() == expected.tolist()


def test_other_types_sort_themselves():
    assert pb.par_argsort(Foreign())[0] is np.argsort


def test_times_with_units():
    for unit in ("Y", "M", "W", "D", "h", "ns", "as", "25s"):
        for dtype in (f"M8[{unit}]", f"m8[{unit}]"):
            a = values(dtype, (40_000,), 1)
            for options in BOTH_WAYS:
                check(a, **options)


def test_many_axes():
    a = values("i4", (2,) * 16, 1)
    for axis in (0, 7, -1, None):
        check(a, axis)
        check(a, axis, descending=True)
    a = values("i4", (1, 1, 50_000, 1), 1)
    for axis in range(4):
        check(a, axis, descending=True)


# ---- mistakes ---------------------------------------------------------------

BIG = np.zeros((200, 600))
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
        call(np.argsort)
    with pytest.raises(type(expected.value)):
        call(pb.par_argsort)
    out = np.zeros((200, 600), np.intp)
    for a in (BIG, TABLE):
        with pytest.raises(type(expected.value)):
            call(
                lambda x, *args, a=a, **options: pb.par_argsort(
                    x, *args, out=out if x is BIG else np.zeros(np.shape(x), np.intp), **options
                )
            )
    assert not out.any()
    assert not BIG.any()
    assert (before == TABLE).all()
    assert pb.par_argsort([2, 1]).tolist() == [1, 0]


@pytest.mark.parametrize("n", [100, 120_000])
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
        for f in [np.argsort, pb.par_argsort] if NUMPY_DESCENDS else [pb.par_argsort]:
            with pytest.raises(error):
                f(a, descending=True, **options)
    with pytest.raises(ValueError, match="ambiguous"):
        pb.par_argsort(a, descending=a)
    assert (a == np.arange(n)).all()


@pytest.mark.parametrize("n", [100, 120_000])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind])
def test_a_kind_and_a_direction_are_refused(n, kind):
    """As NumPy 2.5 does, be the direction upwards; None is no direction."""
    a = np.arange(float(n))
    for f in [np.argsort, pb.par_argsort] if NUMPY_DESCENDS else [pb.par_argsort]:
        for descending in (True, False):
            with pytest.raises(ValueError, match="kind"):
                f(a, kind=kind, descending=descending)
    assert (pb.par_argsort(a, kind=kind, descending=None) == np.arange(n)).all()


def test_any_truth_is_a_direction():
    a = np.arange(120_000)
    for n in (9, a.size):
        for descending in (True, 1, np.True_, "x", [0]):
            assert (pb.par_argsort(a[:n], descending=descending) == a[:n][::-1]).all()
        for descending in (None, False, 0, np.False_, "", []):
            assert (pb.par_argsort(a[:n], descending=descending) == a[:n]).all()


@pytest.mark.parametrize("n", [20, 300, 2_000, 60_000])
@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "i8", "f8", "D"])
def test_what_becomes_an_array_is_ordered_stably(dtype, n):
    """Whoever orders it."""
    a = np.resize(np.array([1, 0, 0], dtype), n)
    expected = np.argsort(a, kind="stable")
    forms = [memoryview(a), a.view(type("Subclass", (np.ndarray,), {}))]
    for form in [*forms, a.tolist(), tuple(a.tolist())]:
        assert (pb.par_argsort(form) == expected).all()
        assert (pb.par_argsort(form, kind="stable") == expected).all()
