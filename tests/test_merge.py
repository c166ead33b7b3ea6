"""par_merge is a stable sort of both, one behind the other."""

from __future__ import annotations

import numpy as np
import pytest
from arrays import SORTED, values
from hypothesis import given, settings
from hypothesis import strategies as st

import pyblitz as pb

# Around what NumPy does alone, steps from both ends, and pieces of 32,768.
LENGTHS = [0, 1, 7, 8, 9, 2048, 4095, 4096, 5000, 32_768, 70_001]


def sorted_values(dtype, n, seed):
    a = values(dtype, (n,), seed)
    return a[np.argsort(a, kind="stable")]


def assert_merged(a, b, **options):
    expected = np.sort(np.concatenate([a, b]), kind="stable")
    got = pb.par_merge(a, b, **options)
    assert type(got) is np.ndarray
    assert got.dtype == expected.dtype.newbyteorder("=")
    np.testing.assert_array_equal(got, expected, strict=got.dtype == expected.dtype)
    if got.dtype.kind in "fc":
        # Equal zeros, and what is no number, are told apart by their bits.
        for part in ("real", "imag"):
            g, e = getattr(got, part), getattr(expected, part)
            np.testing.assert_array_equal(np.signbit(g), np.signbit(e))


@pytest.mark.parametrize("dtype", SORTED)
def test_every_type(dtype):
    for n in LENGTHS:
        for m in LENGTHS if n in (0, 8, 5000) else (70_001,):
            assert_merged(sorted_values(dtype, n, 1), sorted_values(dtype, m, 2))


@settings(max_examples=50)
@given(
    st.sampled_from(SORTED),
    st.sampled_from(LENGTHS),
    st.sampled_from(LENGTHS),
    st.sampled_from("Csrm"),
    st.booleans(),
    st.integers(0, 99),
)
def test_layouts(dtype, n, m, layout, given_out, seed):
    a, b = sorted_values(dtype, n, seed), sorted_values(dtype, m, seed + 1)
    if layout == "s":
        wide = np.empty(2 * n, a.dtype)
        wide[::2] = a
        a = wide[::2]
    elif layout == "r":
        b = b[::-1].copy()[::-1]
    elif layout == "m" and n:
        raw = np.empty(a.nbytes + 1, np.uint8)
        raw[1:].view(a.dtype)[...] = a
        a = raw[1:].view(a.dtype)
    before = a.copy(), b.copy()
    options = {}
    if given_out:
        options["out"] = np.empty(n + m, np.result_type(a, b))
    assert_merged(a, b, **options)
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


SHAPES = {
    "one after the other": lambda n: (np.arange(n), np.arange(n, 2 * n)),
    "the other first": lambda n: (np.arange(n, 2 * n), np.arange(n)),
    "equal": lambda n: (np.zeros(n), np.zeros(n)),
    "interlocked": lambda n: (np.arange(n) * 2, np.arange(n) * 2 + 1),
    "one among many": lambda n: (np.arange(n), np.full(1, n // 2)),
    "many around one": lambda n: (np.full(1, n // 2), np.arange(n)),
    "a few long runs": lambda n: (np.arange(n) // 9999, np.arange(n) // 7777),
    "NaNs": lambda n: (np.full(n, np.nan), np.where(np.arange(n) > 99, np.nan, 1)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["i8", "u4", "f8", "f4", "i2", "f2", "M8[s]", "D", "S9"])
def test_shapes(shape, dtype, pool_size):
    for threads in (1, 3):
        pool_size(threads)
        with np.errstate(all="ignore"):
            a, b = (
                x.astype("i8").view(dtype) if dtype == "M8[s]" else x.astype(dtype)
                for x in SHAPES[shape](100_000)
            )
        a, b = np.sort(a, kind="stable"), np.sort(b, kind="stable")
        assert_merged(a, b)


def test_first_come_those_of_a():
    """Zeros, by their signs."""
    for dtype in ("f8", "f4", "f2", "g"):
        a, b = np.full(50_000, -0.0, dtype), np.full(60_000, 0.0, dtype)
        assert (np.signbit(pb.par_merge(a, b)) == (np.arange(110_000) < 50_000)).all()
        assert (np.signbit(pb.par_merge(b, a)) == (np.arange(110_000) >= 60_000)).all()


def test_two_types():
    a, b = np.arange(50_000, dtype="i4"), np.linspace(0, 40_000, 30_000, dtype="f4")
    assert_merged(a, b)
    assert_merged(a, a.astype(">i8"))
    assert_merged(np.sort(a.astype("S5")), np.sort(a.astype("S3")))
    with pytest.raises(TypeError):
        pb.par_merge(a, a.astype("M8[s]"))
    assert pb.par_merge([1, 3], (2,)).tolist() == [1, 2, 3]
    assert pb.par_merge([], []).tolist() == []


def test_types_that_numpy_merges():
    a = np.arange(9000).astype(object)
    np.testing.assert_array_equal(pb.par_merge(a, a[::2]), np.sort(np.concatenate([a, a[::2]])))
    text = np.sort(np.arange(9000).astype(np.dtypes.StringDType()))
    np.testing.assert_array_equal(
        pb.par_merge(text, text[::2]), np.sort(np.concatenate([text, text[::2]]))
    )
    table = np.zeros(5000, [("a", "i4"), ("b", "f8")])
    table["a"] = np.arange(5000)
    np.testing.assert_array_equal(pb.par_merge(table, table)["a"], np.arange(10_000) // 2)


@pytest.mark.parametrize("dtype", [*SORTED])
def test_what_is_not_sorted_is_still_there(dtype, pool_size):
    for threads in (1, 2, 8):
        pool_size(threads)
        a, b = values(dtype, (50_000,), threads), values(dtype, (70_001,), threads + 1)
        if a.dtype.kind in "fcmM":
            a, b = (np.where(x == x, x, np.array(1).astype(x.dtype)) for x in (a, b))
        got = pb.par_merge(a, b)
        np.testing.assert_array_equal(
            np.sort(got, kind="stable"), np.sort(np.concatenate([a, b]), kind="stable")
        )


def test_out():
    a, b = np.arange(50_000.0), np.arange(0, 30_000, 0.5)
    expected = np.sort(np.concatenate([a, b]))
    whole = np.empty(110_000)
    assert pb.par_merge(a, b, out=whole) is whole
    np.testing.assert_array_equal(whole, expected)
    whole[:50_000], whole[50_000:] = a, b
    pb.par_merge(whole[:50_000], whole[50_000:], out=whole)  # overlapping
    np.testing.assert_array_equal(whole, expected)
    for out in (np.empty(220_000)[::2], np.empty(110_000, ">f8")):
        assert pb.par_merge(a, b, out=out) is out
        np.testing.assert_array_equal(out, expected)
    locked = np.zeros(110_000)
    locked.flags.writeable = False
    for out, error in (
        (np.empty(109_999), ValueError),
        (np.empty((1, 110_000)), ValueError),
        (np.empty(110_000, "f4"), TypeError),
        ([1], TypeError),
        (locked, ValueError),
    ):
        with pytest.raises(error, match="out:"):
            pb.par_merge(a, b, out=out)
    assert not locked.any()


def test_one_dimension_only():
    a = np.arange(9000)
    for bad in (np.zeros((9000, 1)), np.array(3), 3):
        with pytest.raises(ValueError, match="a: must have one dimension"):
            pb.par_merge(bad, a)
        with pytest.raises(ValueError, match="b: must have one dimension"):
            pb.par_merge(a, bad)


def test_same_for_any_number_of_threads(pool_size):
    a, b = sorted_values("f8", 300_000, 1), sorted_values("f8", 200_000, 2)
    c, d = values("D", (100_000,), 1), values("D", (100_000,), 2)  # not sorted
    seen = set()
    for threads in (1, 2, 3, 8, 64):
        pool_size(threads)
        seen.add((pb.par_merge(a, b).tobytes(), pb.par_merge(c, d).tobytes()))
    assert len(seen) == 1


def test_progress():
    told = []
    a = np.arange(500_000)
    pb.par_merge(a, a, progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 0


@pytest.mark.parametrize("n", [50, 20_000])
def test_what_becomes_text_is_sorted(n):
    """Numbers are not in the order of their digits."""
    numbers, text = np.arange(n), np.array(["5"] * n)
    for a, b in ((numbers, text), (text, numbers)):
        np.testing.assert_array_equal(pb.par_merge(a, b), np.sort(np.concatenate([a, b])))
    least = np.arange(n)
    least[0] = np.iinfo(np.int64).min  # becomes a NaT
    times = np.arange(n).astype("m8[s]")
    np.testing.assert_array_equal(
        pb.par_merge(least, times), np.sort(np.concatenate([least, times]))
    )
