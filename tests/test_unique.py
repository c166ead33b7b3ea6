"""par_unique is np.unique."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from arrays import SORTED, arrays, values
from hypothesis import given, settings
from hypothesis import strategies as st

import pyblitz as pb

RNG = np.random.default_rng(11)
FLAGS = ("return_index", "return_inverse", "return_counts")
WANTED = [dict(zip(FLAGS, w, strict=True)) for w in itertools.product([False, True], repeat=3)]
SOME = [WANTED[0], WANTED[1], WANTED[2], WANTED[7]]
# Below and above the least size, one block and several, more than a chunk.
SIZES = [1, 8191, 8192, 16_385, 70_003, 300_000]


def as_numpys(a, **options):
    """NumPy's.  Only with an index does it sort stably, which tells NaNs apart,
    and right, if they are half-precision (see half_is_wrong in arrays/sort)."""
    half = a.dtype.kind == "f" and a.dtype.itemsize == 2
    if a.dtype.char in "gGmM" and not options.get("equal_nan", True):
        return np.unique(a, **options)  # which par_unique leaves to NumPy
    if options.get("return_index") or not (half or options.get("return_inverse")):
        return np.unique(a, **options)
    got = np.unique(a, **(options | {"return_index": True}))
    return got[:1] + got[2:] if len(got) > 2 else got[0]


def check(a, **options):
    before = a.tobytes()
    got = pb.par_unique(a, **options)
    expected = as_numpys(a, **options)
    assert a.tobytes() == before
    assert type(got) is type(expected)
    if type(got) is not tuple:
        got, expected = (got,), (expected,)
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert type(g) is type(e)
        assert g.dtype == e.dtype
        assert g.flags.writeable
        assert not np.shares_memory(g, a)
        np.testing.assert_array_equal(g, e, strict=True)
    return got


@settings(max_examples=50)
@given(
    arrays((*SORTED, "f2", "F", "D", "g", "i1", "u8", "?")),
    st.sampled_from(WANTED),
    st.booleans(),
)
def test_every_dtype_and_layout(a, wanted, equal_nan):
    check(a, equal_nan=equal_nan, **wanted)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    "dtype",
    ["?", "i1", "u1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8", "D", "M8[s]", "S3"],
)
def test_sizes(dtype, n):
    a = values(dtype, (n,), 3)
    for wanted in WANTED:
        check(a, **wanted)
    check(np.zeros_like(a), return_index=True, return_inverse=True, return_counts=True)


# Around the first table, its doublings, what a sample lets pass, and the limit.
@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "count", [1, 2, 127, 128, 129, 1000, 4097, 10_000, 16_383, 16_384, 16_385, 30_000]
)
@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8", "M8[s]"])
def test_few_values(dtype, count):
    n = 140_000
    kinds = np.unique(RNG.integers(-(2**31), 2**31, 2 * count))
    kinds = RNG.permutation(kinds)[:count]
    kinds = kinds.astype(dtype) if dtype != "f4" else (kinds >> 8).astype(dtype)
    a = kinds[RNG.integers(0, count, n)]
    for wanted in SOME:
        check(a, **wanted)
    # A sample says that it is one value; then there are `count` more.
    b = np.full(n, kinds[0])
    at = RNG.choice(n, count, replace=False)
    b[at] = kinds
    for wanted in WANTED[::7]:
        check(b, **wanted)


def test_many_values_at_the_end_only():
    for where in (slice(None, 20_000), slice(-20_000, None), slice(90_000, 110_000)):
        a = np.zeros(300_000, np.int64)
        a[where] = RNG.permutation(20_000)
        for wanted in SOME:
            check(a, **wanted)


@pytest.mark.parametrize("low", [0, 1, 2, -1, 2**63 - 3, -(2**63)])
def test_keys_that_tables_use_themselves(low):
    """0 and 1 mark slots."""
    kinds = np.array([low, low + 1, low + 2], np.int64)
    for some in ([0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2]):
        a = RNG.choice(kinds[some], 50_000)
        for wanted in SOME:
            check(a, **wanted)
            check(a.view(np.uint64), **wanted)
        check(a.astype(np.int32), return_index=True, return_inverse=True, return_counts=True)
        a[[5, 49_999]] = 77
        check(a, return_index=True, return_inverse=True, return_counts=True)


def unhash(hashes):
    """Keys with these hashes, as kernels/distinct computes them."""
    back = pow(0x9E3779B97F4A7C15, -1, 2**64)
    keys = np.array([h * back % 2**64 for h in hashes], np.uint64)
    return keys ^ (keys >> np.uint64(32))


@pytest.mark.parametrize("count", [10, 100, 127, 128, 129, 130, 140, 700])
@pytest.mark.parametrize("high", [0, 1, 2**63, 2**64 - 2**40])
def test_keys_of_one_hash(count, high):
    """They lie in a row, at the begin and over the end of the table, or give it up."""
    kinds = unhash([(high + i) % 2**64 for i in range(1, count + 1)])
    assert np.unique(kinds).size == count
    a = RNG.choice(kinds, 60_000)
    for wanted in SOME:
        check(np.concatenate([a, np.zeros(9, a.dtype)]), **wanted)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("many", [False, True])
def test_zeros_are_one_and_the_first_is_shown(dtype, many):
    for sign in (1, -1):
        a = np.full(150_000, 2.0, dtype)
        if many:
            a = RNG.standard_normal(a.size).astype(dtype)
        a[1000::1000] = 0.0 * -sign
        a[77] = 0.0 * sign
        for wanted in SOME:
            got = check(a, **wanted)[0]
            assert np.signbit(got[got == 0]).tolist() == [sign < 0]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "F", "D", "M8[s]", "m8[D]"])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("nans", [0, 1, 2, 5000, 150_000])
def test_not_a_number(dtype, many, nans):
    # NumPy takes quadratic time for complex ones that differ.
    n = 150_000 if dtype not in "FD" else 10_000
    nans = min(nans, n)
    a = (RNG.standard_normal(n) * 1e4).astype("i8" if dtype[0] in "mM" else dtype).astype(dtype)
    if not many:
        a = a[RNG.integers(0, 50, n)]
    at = RNG.choice(n, nans, replace=False)
    a[at] = "NaT" if dtype[0] in "mM" else np.nan
    if a.dtype.kind == "f":
        a[at[::2]] = -a[at[::2]]  # of either sign
    for wanted in SOME:
        for equal_nan in (False, True):
            check(a, equal_nan=equal_nan, **wanted)


@pytest.mark.parametrize("shape", [(200, 300), (3, 5, 4000), (60_000, 1)])
@pytest.mark.parametrize("kinds", [5, 10**9])
def test_shapes(shape, kinds):
    a = RNG.integers(0, kinds, shape)
    for order in (a, a.T, np.asfortranarray(a), a[::-1], a[..., ::-1]):
        for wanted in SOME:
            check(order, **wanted)
    values_, inverse = pb.par_unique(a, return_inverse=True)
    np.testing.assert_array_equal(values_[inverse], a)


@pytest.mark.parametrize("axis", [0, -1, 1, 5, None, True, np.int64(0), "a", 1.5])
@pytest.mark.parametrize("shape", [(20_000,), (10_000, 2), (2, 10_000)])
def test_axis(shape, axis):
    a = RNG.integers(0, 3, shape)
    options = {"axis": axis, "return_inverse": True, "return_counts": True, "return_index": True}
    try:
        np.unique(a, **options)
    except Exception as e:
        with pytest.raises(type(e)):
            pb.par_unique(a, **options)
    else:
        check(a, **options)


def test_what_numpy_does_alone():
    class Sub(np.ndarray):
        pass

    s = RNG.integers(0, 9, 20_000).view(Sub)
    assert type(pb.par_unique(s)) is type(np.unique(s))
    # Counts and places are plain numbers, whatever the class of the values: they have no unit.
    options = {"return_inverse": True, "return_counts": True}
    assert [type(r) for r in pb.par_unique(s, **options)] == [Sub, np.ndarray, np.ndarray]
    assert [type(r) for r in np.unique(s, **options)] == [Sub, np.ndarray, np.ndarray]
    assert pb.par_unique([3, 1, 1]).tolist() == [1, 3]
    assert pb.par_unique(7).tolist() == [7]
    check(RNG.integers(0, 9, 20_000).astype(object), return_counts=True)
    check(np.zeros(20_000, [("a", "i4"), ("b", "f8")]), return_index=True)
    check(np.zeros(20_000, "V3"), return_counts=True)
    text = np.array(["b", "a"] * 10_000, np.dtypes.StringDType())
    assert pb.par_unique(text).tolist() == ["a", "b"]
    masked = np.ma.masked_equal(RNG.integers(0, 9, 20_000), 3)
    got, expected = pb.par_unique(masked), np.unique(masked)
    assert type(got) is type(expected)
    assert got.tolist() == expected.tolist()
    with pytest.raises(TypeError):
        pb.par_unique(np.array([1, "a"] * 10_000, object))
    with pytest.raises(TypeError):
        pb.par_unique(RNG.integers(0, 9, 20_000), nonsense=1)


def test_not_sorted_is_the_same_set():
    for n in (10, 1000, 100_000):
        a = RNG.integers(0, 500, n)
        got = pb.par_unique(a, sorted=False)
        np.testing.assert_array_equal(np.sort(got), np.unique(a))


def test_read_only_and_misaligned():
    raw = np.zeros(8 * 50_000 + 1, np.uint8)
    a = raw[1:].view(np.int64)
    a[...] = RNG.integers(0, 99, a.size)
    a.flags.writeable = False
    assert not a.flags.aligned
    for wanted in SOME:
        check(a, **wanted)


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "f8", "D", "S4"])
def test_same_bits_for_any_number_of_threads(dtype, pool_size):
    rows = [values(dtype, (300_000,), 1), values(dtype, (300_000,), 2)]
    if dtype == "f8":
        rows += [RNG.choice([0.0, -0.0, np.nan, -np.nan, 5.0], 300_000), RNG.random(300_000)]
    for a in rows:
        seen = set()
        for threads in (1, 2, 3, 8):
            pool_size(threads)
            got = pb.par_unique(a, True, True, True)
            alone = pb.par_unique(a)
            seen.add(tuple(g.tobytes() for g in (*got, alone)))
            assert alone.tobytes() == got[0].tobytes()
        assert len(seen) == 1


def test_progress():
    told = []
    a = RNG.integers(0, 10**9, 500_000)
    got = pb.par_unique(a, return_counts=True, progress=lambda *t: told.append(t))
    np.testing.assert_array_equal(got, np.unique(a, return_counts=True))
    assert told[-1][0] == told[-1][1]


@pytest.mark.parametrize("layout", ["i4,f8", "S3,>i2", [("a", "f4"), ("b", "c8")], "M8[s],?"])
def test_records(layout):
    n = 20_000
    rng = np.random.default_rng(9)
    a = np.zeros(n, layout)
    for name in a.dtype.names:
        a[name] = rng.integers(0, 12, n).astype(a.dtype[name])
    for gaps in (False, True):
        if gaps:
            for name in a.dtype.names:
                if a.dtype[name].kind in "fcM":
                    a[name][rng.integers(0, n, 5)] = "NaT" if a.dtype[name].kind == "M" else np.nan
        with pb.stats() as s:
            got = pb.par_unique(a, True, True, True)
        assert sum(w.busy for w in s.workers) > 0
        expected = np.unique(a, True, True, True)
        assert got[0].tobytes() == expected[0].tobytes()
        for g, e in zip(got[1:], expected[1:], strict=True):
            assert np.array_equal(g, e)
            assert g.dtype == e.dtype
    first = a[a.dtype.names[0]]
    assert pb.par_unique(first, axis=np.int64(0)).tobytes() == np.unique(first, axis=0).tobytes()


@pytest.mark.parametrize("n", [100, 1500, 5000, 30_000])
def test_halves_are_told_apart(n, tmp_path):
    """NumPy's default sort of them may be wrong (2.4.6, AVX-512)."""
    a = (np.random.default_rng(4).integers(0, 20, n) - 10).astype("f2")
    m = np.memmap(tmp_path / "halves", dtype="f2", mode="w+", shape=n)
    m[:] = a
    for x in (a, m, a.astype(">f2"), list(a)):
        values, counts = pb.par_unique(x, return_counts=True)
        expected = np.unique(a.astype("f4"), return_counts=True)
        np.testing.assert_array_equal(values, expected[0])
        np.testing.assert_array_equal(counts, expected[1])
        assert values.dtype == np.unique(x).dtype
        np.testing.assert_array_equal(pb.par_sort(x), np.sort(a.astype("f4")))
    assert len(pb.par_unique(a.reshape(-1, 1), axis=0)) == len(np.unique(a.astype("f4")))
    pb.par_sort(m, out=m)
    assert (m[1:] >= m[:-1]).all()
