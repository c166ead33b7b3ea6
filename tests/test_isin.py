"""par_isin is np.isin."""

from __future__ import annotations

import numpy as np
import pytest
from arrays import arrays, values
from hypothesis import given, settings
from hypothesis import strategies as st

import pyblitz as pb

RNG = np.random.default_rng(12)


def check(element, test, **options):
    before = element.tobytes(), np.asarray(test).tobytes()
    got = pb.par_isin(element, test, **options)
    expected = np.isin(element, test, **options)
    assert (element.tobytes(), np.asarray(test).tobytes()) == before
    assert type(got) is type(expected)
    np.testing.assert_array_equal(got, expected, strict=True)
    return got


DTYPES = ["?", "i1", "u1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8", "F", "D"]


@settings(max_examples=50)
@given(
    arrays(
        (*DTYPES, "g", ">i4", ">f8", "M8[s]", "S3", "U3"), ((20_000,), (100, 101), (3,), (0, 5))
    ),
    st.data(),
)
def test_every_dtype_and_layout(a, data):
    if a.dtype.kind in "SUM":
        b = values(a.dtype.str, (data.draw(st.sampled_from([0, 1, 9, 500, 5000])),), 7)
    else:
        b = data.draw(arrays((*DTYPES, ">i8"), ((0,), (1,), (9,), (500,), (60, 70))))
    kind = data.draw(st.sampled_from([None, "sort"]))
    check(a, b, invert=data.draw(st.booleans()), kind=kind)


@pytest.mark.parametrize("e", DTYPES)
@pytest.mark.parametrize("t", [*DTYPES, "g"])
def test_two_types(e, t):
    with np.errstate(all="ignore"):
        a = values(e, (10_000,), 1)
        b = values(t, (300,), 2)
        check(a, b)
        check(a, np.concatenate([b[:100], a[:100].real.astype(t)]), invert=True)


# On both sides of the range for which there is a table of bits, and of the sizes of
# hash tables; with 0 and without.
@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "f4", "f8"])
@pytest.mark.parametrize("top", [100, 319_000, 321_000, 2**31 - 1])
@pytest.mark.parametrize("count", [1, 2, 17, 1000, 70_000])
def test_numbers(dtype, top, count):
    low = -top if dtype[0] != "u" else 0
    b = RNG.integers(low, top, count).astype(dtype)
    a = np.concatenate([RNG.choice(b, 10_000), RNG.integers(low, top, 10_000).astype(dtype)])
    for invert in (False, True):
        check(a, b, invert=invert)
        check(a, b[b != 0], invert=invert)
        check(a, np.append(b, b.dtype.type(0)), invert=invert)


EDGES = [0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**63 - 1, 2**63, -(2**63), 2**64 - 1]


@pytest.mark.parametrize("e", ["i1", "u1", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("t", ["i1", "u1", "i4", "u4", "i8", "u8"])
def test_edges_of_integers(e, t):
    """Neighbours of each edge, in a table and in a hash table, mixed signs."""

    def near(dtype, edge):
        info = np.iinfo(dtype)
        some = [v for v in range(edge - 3, edge + 4) if info.min <= v <= info.max]
        return np.array(some, dtype)

    a = np.concatenate([near(e, edge) for edge in EDGES] * 400)
    assert a.size > 4096
    for edge in EDGES:
        b = near(t, edge)[::2]
        for invert in (False, True):
            check(a, b, invert=invert)
    if not {e, t} >= {"i8", "u8"}:
        check(a, np.concatenate([near(t, edge)[::2] for edge in EDGES]))


@pytest.mark.parametrize("count", [3, 3000])
def test_kind_table(count):
    a = RNG.integers(-(10**6), 10**6, 20_000)
    b = RNG.integers(-(10**6), 10**6, count)
    check(a, b, kind="table")
    check(a.astype("i2"), b, kind="table", invert=True)
    check(a > 0, b > 0, kind="table")
    check(a > 0, [True], kind="table")
    check(a, a[:0], kind="table")


MISTAKES = [
    (np.arange(9000), np.array([-(2**63), 2**63 - 1]), "table"),
    (np.arange(9000.0), np.arange(9.0), "table"),
    (np.arange(9000), np.arange(9), "rubbish"),
    (np.arange(9000), np.arange(9), 3),
    (np.arange(9000), np.arange(9), ["table"]),
    (np.arange(9000), [[1], [2, 3]], None),
    (np.zeros(9000, [("a", "i4")]), np.zeros(90), "table"),
]


@pytest.mark.parametrize("case", range(len(MISTAKES)))
def test_mistakes(case):
    a, b, kind = MISTAKES[case]
    with pytest.raises((RuntimeError, ValueError, TypeError)) as expected:
        np.isin(a, b, kind=kind)
    with pytest.raises(expected.type):
        pb.par_isin(a, b, kind=kind)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "F", "D", "M8[s]", "m8[D]"])
def test_nothing_is_a_not_a_number_and_zeros_are_equal(dtype):
    a = np.arange(20_000) % 100
    a = a.astype("m8[D]" if dtype[0] == "m" else "i8" if dtype[0] == "M" else dtype).astype(dtype)
    none = np.array("NaT" if dtype[0] in "mM" else np.nan, dtype)
    a[5::50] = none
    a[7::30] = -a[7::30] if dtype[0] != "M" else a[7::30]
    if dtype[0] not in "mM":
        a[9::70] = -0.0
    for more in (a[:0], RNG.permutation(a)[:3000]):
        for first in (a[:1], a[100:101], a[9:10], none.reshape(1)):
            b = np.concatenate([first, more])
            assert not check(a, b)[5]
            assert check(a, b, invert=True)[5]


def unhash(hashes):
    """Keys with these hashes, as kernels/distinct computes them."""
    back = pow(0x9E3779B97F4A7C15, -1, 2**64)
    keys = np.array([h * back % 2**64 for h in hashes], np.uint64)
    return keys ^ (keys >> np.uint64(32))


@pytest.mark.parametrize("count", [2, 100, 255, 256, 257, 5000])
@pytest.mark.parametrize("high", [0, 2**63, 2**64 - 2**40])
def test_keys_of_one_hash(count, high):
    """They lie in a row, over the end of the table, or give it up."""
    keys = unhash([(high + i) % 2**64 for i in range(1, 2 * count + 1)])
    a = RNG.choice(keys, 20_000)
    check(a, keys[::2])
    check(a, keys[1::2], invert=True)


def test_containers_and_shapes():
    a = RNG.integers(0, 100, (100, 90))
    for x in (a, a.T, a[::-1, ::3], np.asfortranarray(a)):
        check(x, [1, 2, 3])
        check(x, (5, 99), invert=True)
        check(x, np.arange(60).reshape(6, 10)[:, ::2])
        check(x, 7)
        check(x, {1, 2})
        check(x, [1.0, 2.5])
        check(x, [2**40, 3])
        check(x, [])
    assert pb.par_isin([1, 2], [2]).tolist() == [False, True]
    assert pb.par_isin(2, [2]).tolist() is True
    check(a.astype(object), [1, 2])
    check(a, np.array([1, "a"], object))
    check(a.astype("S5"), np.array([b"5", b"123456"]))
    check(a.astype("U5"), np.array(["5", "123456"] * 500))
    check(a.astype("M8[s]"), np.array([5, 7], "M8[D]"))


def test_assumed_unique():
    a = RNG.permutation(100_000) * 10**9
    check(a, a[::7], assume_unique=True)
    check(a / 3, (a / 3)[::5], assume_unique=True, invert=True)


def test_read_only_and_misaligned():
    raw = np.zeros(8 * 20_000 + 1, np.uint8)
    a = raw[1:].view(np.int64)
    a[...] = RNG.integers(0, 10**12, a.size)
    a.flags.writeable = False
    check(a, a[::3])
    check(a % 100, a[:50] % 100)
    check(a.view(np.float64), a.view(np.float64)[::3])


@pytest.mark.parametrize("dtype", ["i2", "i8", "f8", "S4"])
def test_same_bits_for_any_number_of_threads(dtype, pool_size):
    a = values(dtype, (200_000,), 1)
    b = values(dtype, (60_000,), 2)
    results = set()
    for threads in (1, 2, 3, 8):
        pool_size(threads)
        results.add(pb.par_isin(a, b).tobytes())
    assert results == {np.isin(a, b).tobytes()}


def test_progress():
    told = []
    a = RNG.integers(0, 10**12, 500_000)
    got = pb.par_isin(a, a[::9], progress=lambda *t: told.append(t))
    np.testing.assert_array_equal(got, np.isin(a, a[::9]))
    assert told[-1][0] == told[-1][1]


@pytest.mark.parametrize("test_type", ["i1", "u1", "i2", "u2", "i4"])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2"])
def test_few_members_far_apart(dtype, test_type):
    """Of 4,001 to 4,095 elements of two bytes, with members over all their range, a hash table
    was made that knows four and eight bytes only: 3,036 members were found instead of one."""
    info, other = np.iinfo(dtype), np.iinfo(test_type)
    a = np.random.default_rng(0).integers(info.min, info.max, 4050, dtype)
    members = [x for x in (info.min, int(a[5]), info.max) if other.min <= x <= other.max]
    check(a, np.array(members, test_type))
