"""par_is_sorted says whether a sort would change anything."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from arrays import SHAPES, SIZES, SORTED, arrays, values
from hypothesis import given, settings
from hypothesis import strategies as st

import pyblitz as pb


def rank(x):
    """What orders an element: numbers first."""
    if x.dtype.kind == "c":
        real, imag = np.isnan(x.real), np.isnan(x.imag)
        return (2 * real + imag, 0 if real else x.real, 0 if imag else x.imag)
    if x.dtype.kind in "fmM":
        none = np.isnat(x) if x.dtype.kind in "mM" else np.isnan(x)
        return (int(none), 0 if none else x, 0)
    return (0, x, 0)


def row_is_sorted(row, descending, strict):
    for x, y in itertools.pairwise(row):
        p, q = rank(x), rank(y)
        if p == q:
            if strict:
                return False
        elif (p[0] > q[0]) if p[0] != q[0] else ((p < q) if descending else (p > q)):
            return False
    return True


def in_order(a, axis, descending):
    """Sorted; from the greatest down what is no number is still last."""
    a = np.sort(a, axis, kind="stable")
    if not descending:
        return a
    axis = 0 if axis is None else axis
    rows = np.moveaxis(a, axis, -1).copy()
    flat = rows.reshape(-1, rows.shape[-1]) if rows.size else rows.reshape(0, 1)
    for row in flat:
        classes = (
            np.array([rank(x)[0] for x in row])
            if row.dtype.kind in "fcmM"
            else 0 * row.view("u1")[: row.size]
        )
        row[...] = row[np.lexsort((-np.arange(row.size), classes))]
    return np.moveaxis(flat.reshape(rows.shape), -1, axis)


ALL = [*SORTED, ">g", ">D", "G"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("descending", [None, True])
def test_one_pair_anywhere(dtype, descending):
    """Sorted, but for one pair; at every place that a loop could forget."""
    n = 700
    a = in_order(values(dtype, (n,), 1), -1, descending)
    assert pb.par_is_sorted(a, descending=descending)
    assert not pb.par_is_sorted(a, descending=descending, strict=True)
    backwards = row_is_sorted(a[::-1], descending, False)
    assert pb.par_is_sorted(a[::-1], descending=descending) is backwards
    for i in [*range(10), *range(250, 265), *range(508, 518), *range(n - 10, n - 1)]:
        b = a.copy()
        b[i], b[i + 1] = a[i + 1], a[i]
        for strict in (False, True):
            expected = row_is_sorted(b, descending, strict)
            assert pb.par_is_sorted(b, descending=descending, strict=strict) is expected


DISTINCT = {
    "i1": np.arange(-100, 100),
    "u1": np.arange(200),
    "i2": np.arange(-300, 300),
    "f2": np.arange(-300, 300),
    "M8[s]": np.arange(-300, 300),
    "?": np.arange(2),
}


@pytest.mark.parametrize(
    "dtype",
    [
        "?",
        "i1",
        "u1",
        "i2",
        "u2",
        "i4",
        "u4",
        "i8",
        "u8",
        "f2",
        "f4",
        "f8",
        "g",
        "F",
        "D",
        "M8[s]",
        "m8[ns]",
        "S7",
        "U5",
        ">i8",
    ],
)
def test_strict(dtype):
    a = DISTINCT.get(dtype, np.arange(600))
    a = np.sort(a.astype(dtype), kind="stable")
    for descending, row in ((False, a), (True, a[::-1].copy())):
        check = functools.partial(pb.par_is_sorted, descending=descending)
        assert check(row, strict=True) is True
        for i in {0, len(row) // 3, len(row) - 2}:
            twice = np.insert(row, i, row[i])
            assert check(twice)
            assert not check(twice, strict=True)
        if row.dtype.kind in "fcmM":
            none = np.array(["NaT"] if row.dtype.kind in "mM" else [np.nan]).astype(row.dtype)
            assert check(np.append(row, none), strict=True)
            assert not check(np.append(none, row))
            assert not check(np.insert(row, len(row) // 2, none[0]))
            assert check(np.concatenate([row, none, none]))
            assert not check(np.concatenate([row, none, none]), strict=True)


@settings(max_examples=50)
@given(
    arrays(dtypes=tuple(ALL), shapes=tuple(s for s in SHAPES if s)),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_axis_and_layout(a, strict, near, data):
    axis = data.draw(st.sampled_from([None, *range(-a.ndim, a.ndim)]))
    shape = np.sort(a, axis).shape
    if near and a.size:
        s = np.sort(a, axis, kind="stable")
        if axis is not None:
            a[...] = s
        else:
            a = s
        if data.draw(st.booleans()):
            i = tuple(data.draw(st.integers(0, n - 1)) for n in a.shape)
            a[i] = a.flat[data.draw(st.integers(0, a.size - 1))]
    flat = a.reshape(-1) if axis is None else a
    assert shape == flat.shape
    along = -1 if axis is None else axis
    order = np.argsort(flat, along, kind="stable")
    index = np.arange(flat.shape[along]).reshape(
        [-1 if i == along % flat.ndim else 1 for i in range(flat.ndim)]
    )
    expected = bool((order == index).all())
    if strict and expected:
        rows = np.moveaxis(flat, along, -1)
        x, y = rows[..., :-1], rows[..., 1:]
        same = x == y
        if a.dtype.kind in "fmM":
            same = same | ((x != x) & (y != y))
        elif a.dtype.kind == "c":
            same = ((x.real == y.real) | (np.isnan(x.real) & np.isnan(y.real))) & (
                (x.imag == y.imag) | (np.isnan(x.imag) & np.isnan(y.imag))
            )
        expected = not same.any()
    assert pb.par_is_sorted(a, axis, strict=strict) is expected


@pytest.mark.parametrize("dtype", ["i8", "f8", "D", "S7", "u1"])
def test_sizes(dtype):
    for n in SIZES:
        a = np.sort(values(dtype, (n,), n), kind="stable")
        assert pb.par_is_sorted(a)
        if n > 1:
            assert pb.par_is_sorted(a[::-1]) is bool(a[0] == a[-1])


def test_types_that_numpy_compares(pool_size):
    pool_size(2)
    objects = np.arange(200_000).astype(object)
    text = np.sort(np.arange(100_000).astype(np.dtypes.StringDType()))
    table = np.zeros(100_000, [("a", "i4"), ("b", "f8")])
    table["a"], table["b"] = np.arange(100_000) // 10, np.arange(100_000) % 10
    for a in (objects, text, table):
        for strict in (False, True):
            assert pb.par_is_sorted(a, strict=strict)
            assert pb.par_is_sorted(a[::-1], descending=True, strict=strict)
            assert not pb.par_is_sorted(a[::-1], strict=strict)
            assert not pb.par_is_sorted(a, descending=True, strict=strict)
        for i in (0, 5, 65_535, 65_536, len(a) - 2):
            b = a.copy()
            b[i], b[i + 1] = a[i + 1], a[i]
            assert not pb.par_is_sorted(b)
            b[i] = b[i + 1] = a[i]
            assert pb.par_is_sorted(b)
            assert not pb.par_is_sorted(b, strict=True)
    with pytest.raises(TypeError):
        pb.par_is_sorted(np.array([1, "a", None], object))


def test_small_and_empty():
    for a in ([], [1], np.zeros((0, 5)), np.zeros((5, 0)), np.zeros((1, 5, 1)), [[2], [1]]):
        assert pb.par_is_sorted(a, strict=True) is True
    assert pb.par_is_sorted([[1, 2], [0, 3]]) is True
    assert pb.par_is_sorted([[1, 2], [0, 3]], axis=0) is False
    assert pb.par_is_sorted([[1, 2], [0, 3]], axis=None) is False
    assert pb.par_is_sorted(np.array(["", ""], "S")) is True


def test_wrong_axis():
    for a, axis in (([1], 1), ([1], -2), (3, -1), (np.zeros((2, 3)), 2)):
        with pytest.raises(np.exceptions.AxisError):
            pb.par_is_sorted(a, axis)
    with pytest.raises(TypeError):
        pb.par_is_sorted([1], "x")


@pytest.mark.parametrize("n", [3, 60_000])
def test_records_with_nothing_in_a_field(n):
    """Last among equals of the fields before it, in both directions, as they are sorted."""
    records = np.zeros(n, [("a", "i4"), ("b", "f8")])
    rng = np.random.default_rng(n)
    records["a"] = rng.integers(0, 3, n)
    records["b"] = np.where(rng.random(n) < 0.3, np.nan, rng.random(n))
    for descending in (False, True):
        (ordered,) = pb.par_sort_by_key(records, descending=descending)
        assert pb.par_is_sorted(ordered, descending=descending)
    records[:3] = [(1, np.nan), (1, 2.0), (0, 5.0)]
    assert not pb.par_is_sorted(records, descending=True)
