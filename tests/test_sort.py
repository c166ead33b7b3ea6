"""par_sort is np.sort."""

from __future__ import annotations

import numpy as np
import pytest
from arrays import SHAPES, SIZES, SORTED, arrays, values
from hypothesis import given, settings
from hypothesis import strategies as st

import pyblitz as pb

KINDS = [None, "quicksort", "mergesort", "heapsort", "stable"]


def assert_sorted_as_numpy(a, **options):
    got = pb.par_sort(a, **options)
    stable = options.get("stable") or options.get("kind") in ("stable", "mergesort")
    if a.dtype == np.float16:
        # NumPy 2.4.6 does not sort half precision by its default kernel with AVX-512.
        options = {**options, "kind": "stable", "stable": None}
    expected = np.sort(a, **options)
    assert type(got) is type(expected)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)
    if stable and got.dtype.kind in "fc":
        # Zeros are equal: a stable sort keeps their signs where they were.
        for part in ("real", "imag"):
            g, e = getattr(got, part), getattr(expected, part)
            ok = ~np.isnan(e)
            np.testing.assert_array_equal(np.signbit(g[ok]), np.signbit(e[ok]))


@settings(max_examples=250, deadline=None)
@given(
    arrays(dtypes=tuple(SORTED), shapes=tuple(s for s in SHAPES if s)),
    st.sampled_from(KINDS),
    st.data(),
)
def test_sort(a, kind, data):
    axis = data.draw(st.sampled_from([None, *range(-a.ndim, a.ndim)]))
    before = a.copy()
    assert_sorted_as_numpy(a, axis=axis, kind=kind)
    np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize("dtype", SORTED)
@pytest.mark.parametrize("stable", [None, True])
def test_sizes_around_thresholds(dtype, stable):
    for n in SIZES:
        assert_sorted_as_numpy(values(dtype, (n,), n), stable=stable)


@pytest.mark.parametrize("dtype", ["i2", "u2", "f2", "i8", "f8", "f4", "u1", "?"])
def test_large(dtype):
    assert_sorted_as_numpy(values(dtype, (1_500_000,), 9))


PATTERNS = {
    "sorted": lambda n: np.arange(n),
    "reversed": lambda n: np.arange(n)[::-1],
    "equal": lambda n: np.full(n, 7),
    "two values": lambda n: np.arange(n) % 2,
    "sixteen values": lambda n: np.random.default_rng(0).integers(0, 16, n) * 2**40,
    "sawtooth": lambda n: np.arange(n) % 1000,
    "organ pipe": lambda n: np.minimum(np.arange(n), np.arange(n)[::-1]),
    "nearly sorted": lambda n: np.arange(n) ^ (np.random.default_rng(0).random(n) < 0.01),
    "outliers": lambda n: np.where(np.arange(n) % 9999 == 0, 2**62, np.arange(n) % 777),
    "zipf": lambda n: np.minimum(np.random.default_rng(0).zipf(1.3, n), 2**40),
    "one heavy value": lambda n: np.where(
        np.random.default_rng(0).random(n) < 0.9,
        5,
        np.random.default_rng(1).integers(-(2**62), 2**62, n),
    ),
    "extremes": lambda n: np.where(np.arange(n) % 2 == 0, -(2**63), 2**63 - 1),
    "powers": lambda n: 2 ** (np.random.default_rng(0).integers(0, 62, n)),
}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", ["i8", "f8", "u4", "f4", "M8[ns]", "D", "S8"])
def test_patterns(pattern, dtype):
    a = PATTERNS[pattern](300_000)
    with np.errstate(all="ignore"):
        a = a.astype("i8").view(dtype) if dtype == "M8[ns]" else a.astype(dtype)
    assert_sorted_as_numpy(a)
    assert_sorted_as_numpy(a, stable=True)


def test_out():
    for shape, axis in (((200_000,), -1), ((300, 400), 0), ((300, 400), 1), ((300, 400), None)):
        a = values("f8", shape, 1)
        expected = np.sort(a, axis)
        out = np.empty(expected.shape)
        assert pb.par_sort(a, axis, out=out) is out
        np.testing.assert_array_equal(out, expected)
        if axis is not None:
            for b in (
                a.copy(),
                np.asfortranarray(a),
                a.astype(">f8"),
                np.repeat(a, 2, axis=-1)[..., ::2],
            ):
                assert pb.par_sort(b, axis, out=b) is b
                np.testing.assert_array_equal(b, expected)
    a = values("f8", (100_000,), 1)
    expected = np.concatenate([a[:1], np.sort(a[:-1])])
    pb.par_sort(a[:-1], out=a[1:])  # overlapping
    np.testing.assert_array_equal(a, expected)


def test_types_that_are_numpys_alone():
    rng = np.random.default_rng(0)
    table = np.zeros(50_000, [("a", "i4"), ("b", "f8")])
    table["a"], table["b"] = rng.integers(0, 9, 50_000), rng.random(50_000)
    for order in (None, "b", ["a", "b"]):
        np.testing.assert_array_equal(pb.par_sort(table, order=order), np.sort(table, order=order))
    objects = rng.integers(0, 99, 40_000).astype(object)
    assert (pb.par_sort(objects) == np.sort(objects)).all()
    text = rng.integers(0, 10**6, 40_000).astype(np.dtypes.StringDType())
    assert (pb.par_sort(text) == np.sort(text)).all()
    assert isinstance(pb.par_sort(np.matrix(np.ones((200, 300)))), np.matrix)
    assert pb.par_sort([3, 1, 2]).tolist() == [1, 2, 3]


def test_same_for_any_number_of_threads(pool_size):
    a = values("D", (200_000,), 1)
    f = values("f8", (400_000,), 1)
    seen = set()
    for n in (1, 2, 3, 8):
        pool_size(n)
        seen.add(
            (
                pb.par_sort(a).tobytes(),
                pb.par_sort(f).tobytes(),
                pb.par_sort(f, stable=True).tobytes(),
            )
        )
    assert len(seen) == 1


BIG = np.zeros((200, 300))


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(BIG, axis=2),
        lambda f: f(BIG, axis="x"),
        lambda f: f(BIG, kind="no such"),
        lambda f: f(BIG, kind=3),
        lambda f: f(BIG, kind="stable", stable=True),
        lambda f: f(BIG, order="a"),
        lambda f: f(np.array(3.0)),
        lambda f: f(np.array([1, "a", None], object)),
    ],
)
def test_bad_input_raises_what_numpy_raises(call):
    with pytest.raises(Exception) as expected:  # noqa: PT011 - NumPy says which
        call(np.sort)
    with pytest.raises(type(expected.value)):
        call(pb.par_sort)
    assert not BIG.any()
    assert pb.par_sort([2, 1]).tolist() == [1, 2]


def test_bad_out():
    a = values("f8", (50_000,), 1)
    locked = np.zeros(50_000)
    locked.flags.writeable = False
    for out, error in (
        (np.zeros(49_999), ValueError),
        (np.zeros(50_000, "f4"), TypeError),
        ([1], TypeError),
        (locked, ValueError),
        (np.zeros((50_000, 1)), ValueError),
    ):
        with pytest.raises(error, match="out:"):
            pb.par_sort(a, out=out)
    assert not locked.any()


def test_half_precision_is_sorted_whatever_numpy_does():
    for n in (1000, 20_000, 200_000, 1_500_000):
        a = pb.par_sort(np.random.default_rng(n).standard_normal(n).astype(np.float16))
        assert (a[1:] >= a[:-1]).all()


def test_layout_is_numpys():
    base = np.random.default_rng(1).random((60, 50, 40))
    for a in (
        np.asfortranarray(base[0]),
        base.transpose(2, 0, 1),
        base[:, ::2],
        base.astype(">f8").T,
    ):
        for axis in range(a.ndim):
            got, expected = pb.par_sort(a, axis), np.sort(a, axis)
            np.testing.assert_array_equal(got, expected)
            assert got.strides == expected.strides
            assert got.dtype == expected.dtype
