"""par_lexsort is np.lexsort, par_rank is scipy.stats.rankdata; what par_sort_by_key and
par_group_by give follows from a stable argsort."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from arrays import SORTED, arrays, assert_same, values
from hypothesis import given, settings
from hypothesis import strategies as st

import pyblitz as pb

# Around the thresholds: what NumPy does, a leaf and a chunk of the kernel, a long row.
SIZES = [0, 1, 2, 4095, 4096, 16384, 16385, 65536, 70_001]
METHODS = ["average", "min", "max", "dense", "ordinal"]
VECTORS = tuple((n,) for n in SIZES)


def stable_order(a, descending=False):
    if not descending:
        return np.argsort(a, kind="stable")
    codes = np.unique(a, return_inverse=True)[1]
    gap = np.isnat(a) if a.dtype.kind in "mM" else np.isnan(a) if a.dtype.kind in "fc" else None
    codes = -codes
    if gap is not None:
        # In their own order, last.
        codes[gap] = 1
    return np.argsort(codes, kind="stable")


# ---- par_lexsort


@settings(max_examples=50)
@given(st.data())
def test_lexsort(data):
    n = data.draw(st.sampled_from(SIZES))
    dtypes = data.draw(st.lists(st.sampled_from(SORTED), min_size=1, max_size=4))
    keys = []
    for i, dtype in enumerate(dtypes):
        key = values(dtype, (n,), i)
        if data.draw(st.booleans()):
            key = key[::-1]
        if i:
            key = key[np.arange(n) % 7] if n else key  # so that the next one decides
        keys.append(key)
    assert_same(pb.par_lexsort(tuple(keys)), np.lexsort(tuple(keys)))


@pytest.mark.parametrize("shape", [(40, 300), (3, 70_000), (70_000, 3), (5, 40, 50), (0, 3)])
def test_lexsort_along_axes(shape):
    keys = [values(d, shape, i) for i, d in enumerate(("u1", "i4", "f8"))]
    keys[2] = np.round(keys[2])
    for axis in range(-len(shape), len(shape)):
        assert_same(pb.par_lexsort(keys, axis), np.lexsort(keys, axis))
        assert_same(pb.par_lexsort(keys, axis=axis), np.lexsort(keys, axis=axis))


def test_lexsort_of_rows_lists_and_others():
    a = np.random.default_rng(0).integers(0, 9, (4, 20_000))
    assert_same(pb.par_lexsort(a), np.lexsort(a))
    assert_same(pb.par_lexsort(a.tolist()), np.lexsort(a.tolist()))
    assert_same(pb.par_lexsort((a[0].tolist(), a[1])), np.lexsort((a[0].tolist(), a[1])))
    assert_same(pb.par_lexsort([3, 1, 2]), np.lexsort([3, 1, 2]))
    # Each row of a matrix is one.
    for matrix in (np.matrix(a), np.matrix(a[:, :9])):
        got, expected = pb.par_lexsort(matrix), np.lexsort(matrix)
        assert type(got) is type(expected)
        np.testing.assert_array_equal(got, expected, strict=True)
    assert_same(pb.par_lexsort((a[0].astype("g"), a[1])), np.lexsort((a[0].astype("g"), a[1])))


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(()),
        lambda f: f((np.arange(9000), np.arange(9001))),
        lambda f: f((np.arange(9000), np.arange(9000)[None])),
        lambda f: f((np.arange(9000),), axis=1),
        lambda f: f((np.arange(9000),), axis="x"),
        lambda f: f((np.arange(9000).astype(object), np.arange(9000))),
        lambda f: f(3),
        lambda f: f((np.arange(9000), np.zeros(9000, "V3"))),
    ],
)
def test_lexsort_refuses_what_numpy_refuses(call):
    try:
        expected = call(np.lexsort)
    except Exception as error:
        with pytest.raises(type(error)):
            call(pb.par_lexsort)
    else:
        assert_same(call(pb.par_lexsort), expected)


# ---- par_sort_by_key


@settings(max_examples=50)
@given(arrays(dtypes=tuple(SORTED), shapes=VECTORS), st.booleans())
def test_sort_by_key(keys, descending):
    n = keys.size
    before = keys.copy()
    tags, table = np.arange(n), np.arange(3 * n).reshape(n, 3)
    got = pb.par_sort_by_key(keys, tags, table, descending=descending)
    assert type(got) is tuple
    order = stable_order(keys, descending)
    if keys.dtype.kind == "c" and descending:
        gap = np.isnan(keys[got[1]])  # NaNs are last, in some order
        assert not gap[: n - gap.sum()].any()
        assert set(got[1].tolist()) == set(range(n))
        order = got[1]
    assert_same(got[1], order)
    assert_same(got[0], keys[order])
    assert_same(got[2], table[order])
    np.testing.assert_array_equal(keys, before)


def test_sort_by_key_of_other_types():
    rng = np.random.default_rng(0)
    table = np.zeros(5000, [("a", "i4"), ("b", "f8")])
    table["a"], table["b"] = rng.integers(0, 9, 5000), rng.integers(0, 9, 5000)
    text = rng.integers(0, 50, 5000).astype(np.dtypes.StringDType())
    for keys in (table, rng.integers(0, 99, 5000).astype(object), text):
        for descending in (False, True):
            got, tags = pb.par_sort_by_key(keys, np.arange(5000), descending=descending)
            assert (tags == stable_order(keys, descending)).all()
            assert (got == keys[tags]).all()
    assert [a.tolist() for a in pb.par_sort_by_key([2, 1], ["b", "a"])] == [[1, 2], ["a", "b"]]
    assert len(pb.par_sort_by_key([2, 1])) == 1


def test_sort_by_key_names_what_is_wrong():
    a = np.arange(5)
    with pytest.raises(ValueError, match=r"values\[1\]: length 4"):
        pb.par_sort_by_key(a, a, a[:4])
    with pytest.raises(ValueError, match=r"values\[0\]: must have a dimension"):
        pb.par_sort_by_key(a, 3)
    with pytest.raises(ValueError, match=r"keys: .* not 2"):
        pb.par_sort_by_key(a[None], a)
    with pytest.raises(TypeError):
        pb.par_sort_by_key([1, None], a[:2])


# ---- par_group_by


def groups_of(columns):
    """By a dictionary."""
    places = {}
    for i, key in enumerate(zip(*columns, strict=True)):
        places.setdefault(key, []).append(i)
    return places


def code_column(a):
    """Numbers that are equal for equal items and in their order."""
    return np.unique(a, return_inverse=True)[1].tolist()


def check_groups(keys, columns):
    g = pb.par_group_by(keys)
    places = groups_of([code_column(c) for c in columns])
    expected = [places[key] for key in sorted(places)]
    assert g.order.dtype == g.starts.dtype == g.counts.dtype == np.intp
    assert g.counts.tolist() == [len(p) for p in expected]
    assert g.starts.tolist() == (np.cumsum(g.counts) - g.counts).tolist()
    assert g.order.tolist() == [i for p in expected for i in p]
    return g


@settings(max_examples=50)
@given(arrays(dtypes=tuple(SORTED), shapes=VECTORS))
def test_group_by(keys):
    if keys.dtype.kind == "c":
        keys = np.where(np.isnan(keys), np.nan, keys)  # one of them, for the order
    check_groups(keys, [keys])


@settings(max_examples=60)
@given(st.data())
def test_group_by_several_keys(data):
    n = data.draw(st.sampled_from(SIZES))
    keys = []
    for i, dtype in enumerate(data.draw(st.lists(st.sampled_from(SORTED), min_size=1, max_size=4))):
        key = values(dtype, (n,), i)
        if n:
            key = key[np.random.default_rng(i).integers(0, min(n, 5), n)]
        if key.dtype.kind == "c":
            key = np.where(np.isnan(key), np.nan, key)
        keys.append(key)
    check_groups(data.draw(st.sampled_from([tuple, list]))(keys), keys)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n", [700, 40_000, 140_000])
@pytest.mark.parametrize("distinct", [1, 2, 100, 10**4, 10**9])
@pytest.mark.parametrize("kind", ["wide", "floats", "narrow", "falling"])
def test_groups_of_keys_that_tie(n, distinct, kind):
    """More bits vary than a word of the sort holds, so that equal keys and keys with equal
    leading bits tie in it."""
    rng = np.random.default_rng(distinct)
    few = rng.integers(-(2**62), 2**62, min(distinct, n))
    few[: few.size // 2] = few[0] + np.arange(few.size // 2)
    key = few[rng.integers(0, few.size, n)]
    key = {
        "wide": lambda: key,
        "floats": lambda: key / 7.0,
        "narrow": lambda: (key // 2**50).astype("i4"),
        "falling": lambda: np.sort(key)[::-1],
    }[kind]()
    other = rng.integers(0, 3, n)
    for keys in [(key,), (other, key), (key, other), (other, key, key.astype("S20"))]:
        got = pb.par_group_by(keys)
        order = np.lexsort(keys[::-1])
        begins = np.zeros(n, bool)
        begins[0] = True
        for k in keys:
            begins[1:] |= k[order][1:] != k[order][:-1]
        np.testing.assert_array_equal(got.order, order)
        np.testing.assert_array_equal(got.starts, np.flatnonzero(begins))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "F", "D", "G"])
def test_groups_of_not_a_numbers_and_zeros(dtype):
    a = np.array([np.nan, 0.0, -0.0, -np.nan, 1.0, 0.0, np.inf, np.nan], dtype)
    for keys in (a, np.tile(a, 4000)):
        g = pb.par_group_by(keys)
        times = keys.size // 8
        assert g.counts.tolist() == [3 * times, times, times, 3 * times]
    if dtype == "D":
        g = pb.par_group_by(np.array([complex(1, np.nan), complex(np.nan, 1), 0j]))
        assert g.counts.tolist() == [1, 2]


def test_group_by_of_other_types():
    rng = np.random.default_rng(0)
    table = np.zeros(9000, [("a", "i4"), ("b", "f8")])
    table["a"] = rng.integers(0, 9, 9000)
    text = rng.integers(0, 50, 9000).astype(np.dtypes.StringDType())
    objects = rng.integers(0, 99, 9000).astype(object)
    small = rng.integers(0, 3, 9000)
    for keys in (table, text, objects):
        check_groups(keys, [keys])
        check_groups((small, keys), [small, keys])
    nat = np.array(["NaT", 1, "NaT"], "M8[s]")
    assert pb.par_group_by(nat).counts.tolist() == [1, 2]
    many = [small] * 40
    check_groups(many, [small])


def test_what_group_by_takes():
    assert pb.par_group_by([5, 3, 5]).counts.tolist() == [1, 2]
    assert pb.par_group_by((5, 3, 5)).counts.tolist() == [1, 2]
    assert pb.par_group_by(["b", "a"]).order.tolist() == [1, 0]
    assert pb.par_group_by([[1, 1, 1], [2, 1, 2]]).order.tolist() == [1, 0, 2]
    for empty in ([], np.array([]), ([], [])):
        assert [len(x) for x in pb.par_group_by(empty)] == [0, 0, 0]
    g = pb.par_group_by([1])
    assert isinstance(g, pb.GroupBy)
    assert type(pickle.loads(pickle.dumps(g))) is pb.GroupBy
    for keys, text in (
        (3, r"keys: .* not 0"),
        (np.zeros((2, 2)), r"keys: .* not 2"),
        (([1], [1, 2]), r"keys\[1\]: length 2"),
        (([1], [[1]]), r"keys\[1\]: .* not 2"),
    ):
        with pytest.raises(ValueError, match=text):
            pb.par_group_by(keys)
    with pytest.raises(TypeError):
        pb.par_group_by(np.array([1, "a"], object))


# ---- par_rank


def rank(a, method):
    """The definition, of a row of numbers."""
    a = np.asarray(a)
    if a.dtype.kind in "fc" and np.isnan(a).any():
        return np.full(a.shape, np.nan)
    if method == "ordinal":
        return 1 + np.argsort(np.argsort(a, kind="stable"))
    _, which, counts = np.unique(a, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    if method == "dense":
        return 1 + which
    if method == "average":
        return ((ends - counts + 1 + ends) / 2)[which]
    return (ends if method == "max" else ends - counts + 1)[which]


@settings(max_examples=50)
@given(
    arrays(dtypes=tuple(d for d in SORTED if "8[" not in d), shapes=VECTORS),
    st.sampled_from(METHODS),
    st.booleans(),
)
def test_rank(a, method, gaps):
    if not gaps and a.dtype.kind in "fc":
        a = np.where(np.isnan(a), 0, a)
    before = a.copy()
    got = pb.par_rank(a, method)
    expected = rank(a, method)
    dtype = np.float64 if method == "average" or np.isnan(expected).any() else np.intp
    assert_same(got, expected.astype(dtype))
    np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize("method", METHODS)
def test_rank_is_scipys(method):
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    for shape in ((5,), (9, 700), (3, 70_000), (70_000, 2), (4, 30, 60), (2, 0), (0,)):
        for gaps in (False, True):
            a = rng.integers(0, 50, shape).astype(float)
            if gaps and a.size:
                a.reshape(-1)[a.size // 3] = np.nan
            for axis in (None, *range(a.ndim)):
                got = pb.par_rank(a, method, axis=axis)
                check_ranks(got, stats.rankdata(a, method, axis=axis), method)
    for a in (
        np.array(["b", "a", "b"]),
        np.array([2, 1, 2], object),
        np.array([2, "NaT", 1, "NaT"], "M8[s]"),
        [True, False],
        3,
        np.array([1j, 2, np.nan]),
    ):
        check_ranks(pb.par_rank(a, method), stats.rankdata(a, method), method)
    times = np.tile(np.array([2, "NaT", 1, "NaT"], "M8[s]"), 2000)
    got, expected = pb.par_rank(times, method), stats.rankdata(times, method)
    # No two of them are equal; which comes first depends on who sorts.
    nat = np.isnat(times)
    check_ranks(got[~nat], expected[~nat], method)
    check_ranks(np.sort(got[nat]), np.sort(expected[nat]), method)


def check_ranks(got, expected, method):
    """SciPy's values; its versions have different dtypes."""
    np.testing.assert_array_equal(got, expected)
    whole = method != "average" and not np.any(expected != expected)
    assert got.dtype == (np.intp if whole else np.float64)


def test_rank_names_what_is_wrong():
    with pytest.raises(ValueError, match="no 'mean'"):
        pb.par_rank([1], "mean")
    with pytest.raises(np.exceptions.AxisError):
        pb.par_rank([1], axis=1)
    with pytest.raises(TypeError):
        pb.par_rank(np.array([1, None], object))


# ---- all


def test_same_for_any_number_of_threads(pool_size):
    keys = values("f8", (150_000,), 1)
    other = values("u1", (150_000,), 2)
    seen = set()
    for n in (1, 2, 3, 8):
        pool_size(n)
        results = [
            pb.par_lexsort((keys, other)),
            *pb.par_sort_by_key(other, keys),
            *pb.par_group_by((other, keys)),
            pb.par_rank(other),
            pb.par_rank(other, "ordinal"),
        ]
        seen.add(tuple(r.tobytes() for r in results))
    assert len(seen) == 1


def test_progress():
    seen = []
    a = values("i4", (100_000,), 1)
    expected = pb.par_group_by(a)
    got = pb.par_group_by(a, progress=lambda done, total: seen.append((done, total)))
    assert (got.order == expected.order).all()
    assert seen[-1][0] == seen[-1][1] > 0
    report = lambda done, total: None  # noqa: E731
    np.testing.assert_array_equal(pb.par_rank(a, "min", progress=report), pb.par_rank(a, "min"))
    np.testing.assert_array_equal(pb.par_lexsort((a,), progress=report), pb.par_lexsort((a,)))
    got = pb.par_sort_by_key(a, a, descending=True, progress=report)
    np.testing.assert_array_equal(got[1], pb.par_sort_by_key(a, descending=True)[0])


# ---- several keys, directions, None ------------------------------------------


def test_none_is_a_key_of_its_own():
    """The last one, as of pandas with dropna=False; NaNs are one before it."""
    keys = np.array(["b", None, "a", None, "b"], object)
    for down, order, counts in (
        (False, [2, 0, 4, 1, 3], [1, 2, 2]),
        (True, [0, 4, 2, 1, 3], [2, 1, 2]),
    ):
        g = pb.par_group_by(keys, descending=down)
        assert (g.order.tolist(), g.counts.tolist()) == (order, counts)
    keys = np.array([2.0, np.nan, None, 1.0, np.nan], object)
    assert pb.par_group_by(keys).order.tolist() == [3, 0, 1, 4, 2]
    assert pb.par_group_by(keys).counts.tolist() == [1, 1, 2, 1]
    g = pb.par_group_by((np.array([1, 1, 1]), np.array([None, 1, None], object)))
    assert g.order.tolist() == [1, 0, 2]


def test_group_by_descending():
    a = np.array([1.0, np.nan, 3.0, 1.0, np.nan, 2.0])
    g = pb.par_group_by(a, descending=True)
    assert g.order.tolist() == [2, 5, 0, 3, 1, 4]
    assert g.counts.tolist() == [1, 1, 2, 2]
    b = np.array([0, 1, 0, 1, 0, 1])
    g = pb.par_group_by((b, a), descending=[True, False])
    assert g.order.tolist() == [3, 5, 1, 0, 2, 4]
    records = np.array([(1, 2.0), (1, 3.0), (2, 0.0)], "i4,f8")
    assert pb.par_group_by(records, descending=True).order.tolist() == [2, 1, 0]
    with pytest.raises(ValueError, match="descending: 1 of them do not match 2 keys"):
        pb.par_group_by((a, b), descending=[True])


@pytest.mark.parametrize("n", [50, 20_000])
@pytest.mark.parametrize("dtype", ["i8", "f8", ">i4", "f2", "c16", "U3", "S2", "M8[s]", object])
def test_lexsort_descending(dtype, n):
    rng = np.random.default_rng(3)
    first = rng.integers(0, 9, n)
    last = rng.integers(0, 50, n).astype(dtype)
    codes = np.unique(last, return_inverse=True)[1]
    for downs in ((False, True), (True, False), (True, True)):
        signs = [-1 if d else 1 for d in downs]
        expected = np.lexsort((signs[0] * first, signs[1] * codes))
        assert np.array_equal(pb.par_lexsort((first, last), descending=downs), expected)
    assert np.array_equal(pb.par_lexsort((first, last), descending=True), expected)
    rows = np.array([first, codes]).reshape(2, 5, -1)
    for axis in (0, np.int64(-1)):
        got = pb.par_lexsort(rows, axis, descending=[True, False])
        assert np.array_equal(got, np.lexsort((-rows[0], rows[1]), axis))
    for mistake in ((first, first[1:]), (first, last, last)):
        with pytest.raises(ValueError, match=r"descending|shape"):
            pb.par_lexsort(mistake, descending=[True, True])
    with pytest.raises(np.exceptions.AxisError):
        pb.par_lexsort((first, first), 1, descending=True)


@pytest.mark.parametrize("n", [10, 20_000])
def test_sort_by_several_keys(n):
    rng = np.random.default_rng(4)
    a, b, v = rng.integers(0, 5, n), rng.integers(0, 5, n).astype("f4"), np.arange(n)
    order = np.lexsort((b, a))
    for keys in ((a, b), [a, b]):
        got, values = pb.par_sort_by_key(keys, v)
        assert type(got) is tuple
        assert [np.array_equal(x, y) for x, y in zip(got, (a[order], b[order]), strict=True)] == [
            True,
            True,
        ]
        assert np.array_equal(values, order)
    _, values = pb.par_sort_by_key((a, b), v, descending=[False, True])
    assert np.array_equal(values, np.lexsort((-b, a)))
    (one,), values = pb.par_sort_by_key((a,), v)
    assert np.array_equal(one, np.sort(a))
    with pytest.raises(ValueError, match=r"keys\[1\]: length"):
        pb.par_sort_by_key((a, b[1:]), v)
    with pytest.raises(ValueError, match="descending:"):
        pb.par_sort_by_key((a, b), v, descending=[True] * 3)


def test_masks_of_keys_are_refused():
    masked = np.ma.array([3, 1, 2], mask=[0, 1, 0])
    for call in (
        lambda: pb.par_group_by(masked),
        lambda: pb.par_group_by((masked, masked)),
        lambda: pb.par_sort_by_key(masked, [1, 2, 3]),
        lambda: pb.par_sort_by_key(([1, 2, 3], masked)),
        lambda: pb.par_sort_by_key([1, 2, 3], masked),
        lambda: pb.par_rank(masked),
        lambda: pb.par_lexsort(([1, 2, 3], masked), descending=True),
    ):
        with pytest.raises(TypeError, match="knows no masks"):
            call()


def test_keys_in_containers():
    pd = pytest.importorskip("pandas")
    a = np.random.default_rng(5).integers(0, 100, 10_000)
    b = np.arange(10_000) % 7
    for kind in (pd.Series, memoryview, list):
        keys = (kind(a), kind(b))
        assert np.array_equal(pb.par_lexsort(keys), np.lexsort((a, b)))
        assert np.array_equal(pb.par_group_by(keys).order, np.lexsort((b, a)))
        assert np.array_equal(pb.par_sort_by_key(keys, a)[1], np.sort(a))


# ---- what is missing among objects and text


class Missing:
    """As pandas's NaT: equal to nothing, and not less than anything."""

    def __eq__(self, other):
        return False

    def __lt__(self, other):
        return False

    def __gt__(self, other):
        return False

    __hash__ = None


@pytest.mark.parametrize(
    "nan",
    [float("nan"), np.float32("nan"), np.datetime64("NaT"), Missing()],
    ids=["float", "float32", "NaT", "of its own"],
)
def test_what_is_missing_among_objects_is_last_and_one(nan):
    keys = np.array([3, nan, 1, nan, 3, 1], object)
    for descending in (False, True):
        numbers = [3, 1] if descending else [1, 3]
        g = pb.par_group_by(keys, descending=descending)
        assert [keys[g.order[i]] for i in g.starts[:2]] == numbers
        assert g.counts.tolist() == [2, 2, 2]
        assert g.order[4:].tolist() == [1, 3]
        got = pb.par_sort_by_key(keys, np.arange(6), descending=descending)
        assert got[0][:4].tolist() == np.repeat(numbers, 2).tolist()
        assert got[1][4:].tolist() == [1, 3]
    assert pb.par_topk(keys, 3).values[:3].tolist() == [3, 3, 1]
    assert pb.par_topk(keys, 3, largest=False).values[:3].tolist() == [1, 1, 3]
    assert np.isnan(pb.par_rank(keys)).all()


def test_what_is_missing_in_columns_of_pandas():
    pd = pytest.importorskip("pandas")
    zone = pd.Series(pd.to_datetime(["2020-01-03", None, "2020-01-01", None, "2020-01-03"]))
    text = pd.Series(["b", None, "a", None, "b"], dtype="string")
    for column in (zone.dt.tz_localize("UTC"), text):
        g = pb.par_group_by(column)
        assert g.order.tolist() == [2, 0, 4, 1, 3]
        assert g.counts.tolist() == [1, 2, 2]


def test_text_with_a_nan():
    if not hasattr(np.dtypes, "StringDType"):
        pytest.skip("this NumPy has no text of variable width")
    keys = np.array(["b", "a", np.nan, "b"], dtype=np.dtypes.StringDType(na_object=np.nan))
    assert pb.par_group_by(keys).counts.tolist() == [1, 2, 1]
    assert pb.par_sort_by_key(keys, np.arange(4))[1].tolist() == [1, 0, 3, 2]
    assert pb.par_topk(keys, 2).values.tolist() == ["b", "b"]
    assert np.isnan(pb.par_rank(keys)).all()


def test_integers_that_are_missing_are_not_rounded():
    """Libraries make doubles of such a column."""
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    for column in (pd.Series, pl.Series):
        options = {"dtype": "Int64"} if column is pd.Series else {}
        for numbers in ([5, 6, None], [2**53, 2**53 + 1, None]):
            key = column(numbers, **options)
            if np.asarray(key).dtype != float or numbers[0] == 5:
                assert pb.par_group_by(key).counts.tolist() == [1, 1, 1]
                continue
            with pytest.raises(ValueError, match=re.escape("beyond 2**53")):
                pb.par_group_by(key)
            with pytest.raises(ValueError, match=re.escape("beyond 2**53")):
                pb.par_sort_by_key(key)


def test_lexsort_of_swapped_complex_numbers_does_not_depend_on_the_size():
    for n in (16, 100_000):
        x = (np.arange(n) % 7 + 1j * (np.arange(n) % 5)).astype(">c16")
        np.testing.assert_array_equal(pb.par_lexsort((x,)), np.lexsort((x,)))


def test_directions_are_counted_at_any_size():
    for n in (3, 100_000):
        a = np.arange(n)
        for down in ([False], [True, False, False]):
            with pytest.raises(ValueError, match="do not match 2 keys"):
                pb.par_lexsort((a, a), descending=down)


def test_no_keys():
    for keys in ([], ()):
        assert pb.par_sort_by_key(keys)[0].size == 0
        assert pb.par_group_by(keys).order.size == 0
