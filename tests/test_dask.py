"""`pyblitz.dask`: lazy, balanced, and what NumPy would give, whatever the blocks are."""

from __future__ import annotations

import doctest
import inspect
import re
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyblitz as pb

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
import pyblitz.dask  # noqa: E402
import pyblitz.numpy as pnp  # noqa: E402

N = 40_003
RNG = np.random.default_rng(0)
MANY = RNG.integers(0, 1000, N)
DATA = {
    "random": RNG.random(N),
    "all equal": np.ones(N, "f4"),
    "few": MANY.astype("i1"),
    "Zipf": RNG.zipf(1.5, N),
    "sorted": np.arange(N),
    "reversed": np.arange(N)[::-1],
    "not numbers": np.where(MANY < 300, np.nan, RNG.random(N)),
    "zeros of both signs": np.where(MANY < 500, -0.0, 0.0),
    "strings": MANY.astype("U5"),
    "bytes": MANY.astype("S3"),
    "complex": (MANY // 100 + 1j * (MANY % 100)).astype("c8"),
    "dates": MANY.astype("M8[D]"),
    "not times": np.where(MANY < 300, np.timedelta64("NaT", "s"), MANY.astype("m8[s]")),
    "big-endian": MANY.astype(">u4"),
    "halves": RNG.random(N).astype("f2"),
    "bools": MANY < 300,
    "objects": MANY.astype(object),
    "records": np.rec.fromarrays([MANY // 100, MANY % 100]).view(np.ndarray),
}
CHUNKS = [N, 5_001, (1, N - 5, 0, 4), 20_002]


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="sync"):
        yield


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("name", DATA)
def test_sorts(name, chunks):
    a = DATA[name]
    x = da.from_array(a, chunks=(chunks,) if type(chunks) is tuple else chunks)
    for descending in (False, True) if a.dtype.kind not in "OV" else (False,):
        expected = pb.par_argsort(a, stable=True, descending=descending)
        values = pb.par_sort(x, descending=descending)
        places = pb.par_argsort(x, descending=descending)
        for got, dtype in ((values, a.dtype), (places, np.intp)):
            assert type(got) is da.Array
            assert (got.shape, got.dtype) == (x.shape, dtype)
            # Nobody gets more than his share.
            assert got.numblocks == (sum(n > 0 for n in x.chunks[0]),)
            assert max(got.chunks[0]) - min(got.chunks[0]) <= 1
        assert np.array_equal(places.compute(), expected)
        got = values.compute()
        assert got.dtype == a.dtype
        if a.dtype == object:
            assert got.tolist() == a[expected].tolist()
        else:
            assert got.tobytes() == a[expected].tobytes()
        assert [len(b.compute()) for b in values.blocks] == list(values.chunks[0])


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 5), max_size=60), min_size=1, max_size=9), st.booleans())
def test_blocks_of_any_size(blocks, descending):
    a = np.array([x for block in blocks for x in block], "i2")
    x = da.from_array(a, chunks=(tuple(map(len, blocks)),))
    got = pyblitz.dask.par_argsort(x, descending=descending).compute()
    assert np.array_equal(got, pb.par_argsort(a, stable=True, descending=descending))
    got = pyblitz.dask.par_sort(x, descending=descending)
    assert np.array_equal(got.compute(), pb.par_sort(a, descending=descending))
    assert got.dtype == a.dtype


@pytest.mark.parametrize("axis", [0, 1, -1, 2, None, np.int64(0)])
def test_axes(axis):
    a = RNG.random((40, 50, 6))
    x = da.from_array(a, chunks=(15, 20, 6))
    assert np.array_equal(pb.par_sort(x, axis=axis).compute(), np.sort(a, axis=axis))
    assert np.array_equal(
        pb.par_argsort(x, axis, descending=True).compute(),
        pb.par_argsort(a, axis, stable=True, descending=True),
    )


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [0, 1, 17, N])
@pytest.mark.parametrize("name", ["random", "few", "not numbers"])
def test_topk(name, k, largest):
    a = DATA[name]
    got = pb.par_topk(da.from_array(a, chunks=7_000), k, largest=largest)
    assert type(got) is pb.TopK
    for x, expected in zip(got, pb.par_topk(a, k, largest=largest), strict=True):
        assert type(x) is da.Array
        assert (x.shape, x.dtype) == (expected.shape, expected.dtype)
        assert np.array_equal(x.compute(), expected, equal_nan=a.dtype.kind == "f")


@pytest.mark.parametrize("op", [np.add, np.maximum, np.bitwise_or, np.logical_and])
def test_reductions(op):
    a = RNG.integers(0, 100, (70, 80, 9)).astype("i2")
    x = da.from_array(a, chunks=(30, 30, 4))
    for options in ({}, {"axis": None}, {"axis": (0, 2)}, {"axis": -1, "keepdims": True}):
        got, expected = pb.par_reduce(op, x, **options), op.reduce(a, **options)
        assert type(got) is da.Array
        assert (got.shape, got.dtype) == (np.shape(expected), expected.dtype)
        assert np.array_equal(got.compute(), expected)
    got = pb.par_reduce(np.add, x, dtype="f4")
    assert got.dtype == got.compute().dtype == "f4"


@pytest.mark.parametrize("op", [np.subtract, np.divide, np.arctan2])
def test_what_is_not_associative(op):
    a = RNG.random((9, 12))
    x = da.from_array(a, chunks=(2, 5))
    for axis in (0, 1):
        got = pb.par_reduce(op, x, axis=axis).compute()
        np.testing.assert_allclose(got, op.reduce(a, axis=axis))
    got = pb.par_reduce(op, da.from_array(a[0], chunks=5)).compute()
    np.testing.assert_allclose(got, op.reduce(a[0]))


def test_reductions_of_rarer_arrays():
    small = np.full(8, 100, "i1")
    for dtype in ("i1", "i2", "?", "f8"):
        got = pb.par_reduce(np.add, da.from_array(small, chunks=3), dtype=dtype)
        expected = np.add.reduce(small, dtype=dtype)
        assert got.dtype == got.compute().dtype == expected.dtype
        assert got.compute() == expected
    holes = da.from_array(np.arange(8), chunks=((3, 0, 5),))
    assert pb.par_reduce(np.maximum, holes).compute() == 7
    assert pb.par_reduce(np.add, da.from_array(small.astype(object), chunks=3)).compute() == 800
    assert pb.par_reduce(np.add, da.asarray(5)).compute() == 5


def test_sorts_of_rarer_arrays():
    strings = np.array(["b", "a", "c"], np.dtypes.StringDType())
    assert pb.par_sort(da.from_array(strings, chunks=1)).compute().tolist() == ["a", "b", "c"]
    rows = np.tile(np.array([3, 1, 2], object), (4, 1))
    got = pb.par_sort(da.from_array(rows, chunks=2)).compute()
    assert got.tolist() == [[1, 2, 3]] * 4
    for shape in [(0,), (3, 0), (0, 3), (2, 0, 3)]:
        for dtype in ("f8", [("x", int)]):
            a = np.empty(shape, dtype)
            for axis in (-1, None):
                got = pb.par_argsort(da.from_array(a, chunks=1), axis=axis).compute()
                expected = np.argsort(a, axis=axis)
                assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    best = pb.par_topk(da.from_array(MANY.astype(">u4"), chunks=9_000), 5).values
    assert best.dtype == best.compute().dtype == ">u4"
    # Somebody's tasks may have numbers for names.
    graph = {0: 1000, ("q", 0): (np.arange, 10), ("q", 1): (np.arange, 10)}
    graph = dask.highlevelgraph.HighLevelGraph.from_collections("q", graph, dependencies=[])
    numbered = da.Array(graph, "q", ((10, 10),), dtype=int)
    assert pb.par_topk(numbered, 3).indices.compute().tolist() == [9, 19, 8]
    assert pb.par_argsort(numbered).compute()[:2].tolist() == [0, 10]


# ---- distinct values --------------------------------------------------------

ALL = {"return_index": True, "return_inverse": True, "return_counts": True}


def same(got, expected):
    """A lazy array, or several, and what NumPy gives."""
    many = (got, expected) if type(expected) is tuple else ((got,), (expected,))
    for x, y in zip(*many, strict=True):
        assert type(x) is da.Array
        there = x.compute()
        y = np.asarray(y)
        assert x.dtype == y.dtype
        assert (x.ndim, np.shape(there), there.dtype) == (y.ndim, y.shape, y.dtype)
        floats = y.dtype.kind in "fcmM"
        assert np.array_equal(there, y, equal_nan=floats)
        if not np.isnan(x.shape).any():
            assert x.shape == y.shape


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chunks", CHUNKS[:3])
@pytest.mark.parametrize("name", DATA)
def test_unique(name, chunks):
    a = DATA[name]
    x = da.from_array(a, chunks=(chunks,) if type(chunks) is tuple else chunks)
    same(pb.par_unique(x), np.unique(a))
    same(pb.par_unique(x, **ALL), np.unique(a, **ALL))
    assert pb.par_unique(x, return_inverse=True)[1].chunks == x.chunks


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 1, 2, 3, np.nan]), max_size=30), min_size=1, max_size=9
    ),
    st.booleans(),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_unique_of_blocks_of_any_size(blocks, equal_nan, asked):
    a = np.array([x for block in blocks for x in block], "f4")
    x = da.from_array(a, chunks=(tuple(map(len, blocks)),))
    # Without the index, NumPy's NaNs that differ are in any order.
    asked = (asked[0] or not equal_nan, *asked[1:])
    same(
        pyblitz.dask.par_unique(x, *asked, equal_nan=equal_nan),
        np.unique(a, *asked, equal_nan=equal_nan),
    )


@pytest.mark.parametrize("shape", [(30, 20), (6, 7, 8), (), (0, 3), (0,)])
def test_unique_of_several_axes(shape):
    for a in (RNG.integers(0, 9, shape), np.where(RNG.random(shape) < 0.5, np.nan, 1.0)):
        x = da.from_array(a, chunks=tuple(n // 2 + 1 for n in shape))
        same(pb.par_unique(x, **ALL), np.unique(a, **ALL))
        same(pb.par_unique(x, **ALL, equal_nan=False), np.unique(a, **ALL, equal_nan=False))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unique_rows(axis):
    a = RNG.integers(0, 2, (20, 3, 9))
    x = da.from_array(a, chunks=(6, 2, 4))
    same(pb.par_unique(x, axis=axis), np.unique(a, axis=axis))
    same(pb.par_unique(x, axis=axis, **ALL), np.unique(a, axis=axis, **ALL))
    same(pb.par_unique(x[0, 0], axis=0, **ALL), np.unique(a[0, 0], axis=0, **ALL))


def test_no_task_has_all_distinct_values(monkeypatch):
    a = RNG.permutation(N)
    x = da.from_array(a, chunks=5_001)
    values = pb.par_unique(x)
    lengths = [len(block.compute()) for block in values.blocks]
    assert sum(lengths) == N
    assert max(lengths) < 1.3 * N / len(lengths)
    # Of many blocks there are fewer ranges.
    monkeypatch.setattr(pyblitz.dask.sets, "PIECES", 3 * x.npartitions)
    values = pb.par_unique(x, **ALL)
    assert values[0].numblocks == (3,)
    same(values, np.unique(a, **ALL))


def test_what_was_distinct_goes_on_without_known_sizes():
    a = DATA["few"]
    x = da.from_array(a, chunks=9_000)
    some = x[x > 3]
    same(pb.par_unique(some, return_counts=True), np.unique(a[a > 3], return_counts=True))
    values, inverse = pb.par_unique(some, return_inverse=True)
    assert np.array_equal(values.compute()[inverse.compute()], a[a > 3])
    same(pb.par_searchsorted(values, x), np.searchsorted(np.unique(a[a > 3]), a))
    same(pb.par_bincount(pb.par_bincount(some)), np.bincount(np.bincount(a[a > 3])))
    values.compute_chunk_sizes()
    assert values.shape == np.unique(a[a > 3]).shape


# ---- searches ---------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("chunks", CHUNKS[:3])
@pytest.mark.parametrize("name", DATA)
def test_searchsorted(name, chunks, side):
    v = DATA[name][::20]
    a = DATA[name][np.argsort(DATA[name], kind="stable")]
    expected = np.searchsorted(a, v, side)
    x = da.from_array(a, chunks=(chunks,) if type(chunks) is tuple else chunks)
    y = da.from_array(v, chunks=700)
    got = pb.par_searchsorted(x, y, side)
    assert got.chunks == y.chunks
    same(got, expected)
    same(pb.par_searchsorted(a, y, side=side), expected)
    same(pb.par_searchsorted(x, v, side=side), expected)


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=20), min_size=1, max_size=9),
    st.lists(st.lists(st.floats(-1, 6), max_size=9), min_size=1, max_size=5),
    st.sampled_from(["left", "right"]),
)
def test_searches_in_blocks_of_any_size(blocks, searched, side):
    a = np.sort(np.array([x for block in blocks for x in block], "i2"))
    v = np.array([x for block in searched for x in block])
    x = da.from_array(a, chunks=(tuple(map(len, blocks)),))
    y = da.from_array(v, chunks=(tuple(map(len, searched)),))
    same(pyblitz.dask.par_searchsorted(x, y, side), np.searchsorted(a, v, side))


def test_searches_for_and_in_rarer_arrays():
    a = RNG.integers(0, 100, 500)
    x, order = da.from_array(a, chunks=130), np.argsort(a, kind="stable")
    v = RNG.random((30, 20)) * 100
    expected = np.searchsorted(a[order], v)
    y = da.from_array(v, chunks=(13, 8))
    same(pb.par_searchsorted(x, y, sorter=pb.par_argsort(x)), expected)
    same(pb.par_searchsorted(x, v, sorter=order), expected)
    same(pb.par_searchsorted(a, y, sorter=order), expected)
    same(pb.par_searchsorted(pb.par_sort(x), 50), np.searchsorted(a[order], 50))
    same(pb.par_searchsorted(np.sort(a).tolist(), y), expected)
    same(pnp.searchsorted(pb.par_sort(x), v.tolist()), expected)


# ---- counts -----------------------------------------------------------------


@pytest.mark.parametrize("chunks", CHUNKS)
def test_bincount(chunks):
    x = da.from_array(MANY, chunks=(chunks,) if type(chunks) is tuple else chunks)
    w = DATA["random"]
    same(pb.par_bincount(x), np.bincount(MANY))
    same(pb.par_bincount(x, minlength=2_000), np.bincount(MANY, minlength=2_000))
    same(pb.par_bincount(x, minlength=3), np.bincount(MANY))
    for weights in (w, da.from_array(w, chunks=7_000)):
        got = pb.par_bincount(x, weights=weights, minlength=1_001)
        np.testing.assert_allclose(got.compute(), np.bincount(MANY, w, 1_001), rtol=1e-12)
    same(pb.par_bincount(MANY, da.from_array(MANY)), np.bincount(MANY, MANY))
    small = (x % 100).astype("u1")
    assert pb.par_bincount(small, minlength=256).shape == (256,)
    same(pb.par_bincount(small, minlength=256), np.bincount(MANY % 100, minlength=256))
    same(pb.par_bincount(x[:0]), np.bincount(MANY[:0]))
    same(pb.par_bincount(x > 3), np.bincount(MANY > 3))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bins": 7},
        {"bins": 5, "range": (0.2, 0.7)},
        {"bins": [0.1, 0.2, 0.6]},
        {"bins": np.linspace(0, 1, 11), "density": True},
        {"density": True},
    ],
)
@pytest.mark.parametrize("name", ["random", "halves", "few", "all equal", "bools", "sorted"])
@pytest.mark.filterwarnings("ignore:Converting input from bool")
def test_histogram(name, options):
    a = DATA[name]
    x = da.from_array(a, chunks=9_000)
    with np.errstate(invalid="ignore"):  # where nothing is counted
        for got, expected in zip(
            pb.par_histogram(x, **options), np.histogram(a, **options), strict=True
        ):
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-13)
    hist, edges = pb.par_histogram(x, **options)
    assert type(hist) is da.Array
    known = "range" in options or np.ndim(options.get("bins", 1)) > 0
    assert type(edges) is (np.ndarray if known else da.Array)
    assert hist.shape[0] + 1 == len(edges) == len(np.asarray(edges))


def test_histograms_of_rarer_arrays():
    a, w = RNG.random((50, 60)), RNG.integers(0, 9, (50, 60)).astype("f4")
    x = da.from_array(a, chunks=(20, 30))
    for weights in (w, da.from_array(w, chunks=60)):
        got, _ = pb.par_histogram(x, 9, weights=weights)
        same(got, np.histogram(a, 9, weights=w)[0])
    same(pb.par_histogram(x[x < 0.5], 9)[0], np.histogram(a[a < 0.5], 9)[0])
    same(pb.par_histogram(x[:0], 9), np.histogram(a[:0], 9))
    lazily = pb.par_histogram(x, 9, (x.min(), x.max()))
    same(lazily, np.histogram(a, 9))
    same(pnp.histogram(x, da.from_array(np.linspace(0, 1, 4)))[0], np.histogram(a, 3, (0, 1))[0])


def test_histograms_that_are_computed_together():
    """Their tasks have names of their own, although neither was given a range."""
    a = DATA["random"]
    x = da.from_array(a, chunks=9_000)
    for several in ((9, [0.0, 0.2, 1.0]), ([0.0, 0.2, 1.0], 9)):
        counts = dask.compute(*(pb.par_histogram(x, bins)[0] for bins in several))
        for got, bins in zip(counts, several, strict=True):
            assert np.array_equal(got, np.histogram(a, bins)[0])


# ---- groups -----------------------------------------------------------------


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", [n for n in DATA if n != "records"])
def test_groups(name, descending):
    a = DATA[name]
    for chunks in CHUNKS[1:3]:
        x = da.from_array(a, chunks=(chunks,) if type(chunks) is tuple else chunks)
        if a.dtype == object and descending:
            continue
        got = pb.par_group_by(x, descending=descending)
        assert type(got) is pb.GroupBy
        same(tuple(got), tuple(pb.par_group_by(a, descending=descending)))
        assert max(got.order.chunks[0]) - min(got.order.chunks[0]) <= 1


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from([0, 1, 2, np.nan]), max_size=30), min_size=1, max_size=9),
    st.booleans(),
    st.sampled_from(["f8", "c8"]),
)
def test_groups_of_blocks_of_any_size(blocks, descending, dtype):
    a = np.array([x for block in blocks for x in block], dtype)
    if dtype == "c8":
        a[::2] *= 1j  # NaNs of several kinds
    x = da.from_array(a, chunks=(tuple(map(len, blocks)),))
    got = pb.par_group_by(x, descending=descending)
    same(tuple(got), tuple(pb.par_group_by(a, descending=descending)))


def test_groups_of_several_keys():
    keys = (MANY % 7, np.where(MANY % 5 == 0, np.nan, MANY % 3), (MANY % 2).astype("U3"))
    lazily = [da.from_array(k, chunks=c) for k, c in zip(keys, (9_000, 7_000, N), strict=True)]
    for n in (1, 2, 3):
        expected = tuple(pb.par_group_by(keys[:n]))
        same(tuple(pb.par_group_by(tuple(lazily[:n]))), expected)
    same(tuple(pb.par_group_by([keys[1], lazily[0]])), tuple(pb.par_group_by(keys[1::-1])))
    records = DATA["records"]
    got = pyblitz.dask.par_group_by(da.from_array(records, chunks=9_000))
    same(tuple(got), tuple(pb.par_group_by(records)))


# ---- maps -------------------------------------------------------------------


def test_maps():
    a, b = RNG.random((40, 50)) * 4, RNG.random(50)
    x, y = da.from_array(a, chunks=(15, 20)), da.from_array(b, chunks=30)
    for got, expected in [
        (pb.par_map(np.sqrt, x), np.sqrt(a)),
        (pb.par_map(np.add, x, b), a + b),
        (pb.par_map(np.matmul, x.astype(int), a.astype(int).T), a.astype(int) @ a.astype(int).T),
        (pb.par_map(np.frexp, x), np.frexp(a)),
        (pb.par_map(lambda p: p * 2, x), a * 2),
        (pb.par_map(lambda p, q, r: p * q + r, x, y, 3), a * b + 3),
        (pb.par_map(lambda p, q: p + q, a, y[:1]), a + b[:1]),
        (pb.par_map(lambda p: (p > 0.5).astype("i2"), y), (b > 0.5).astype("i2")),
        (pb.par_map(lambda p: p + 1, y, dtype="f4", casting="same_kind"), (b + 1).astype("f4")),
        (pb.par_map(lambda p: float(p > 0.5), x, elementwise=True), (a > 0.5) * 1.0),
        # Row by row: these have all of their columns.
        (pb.par_map(lambda p: p - p.max(axis=1)[:, None], x), a - a.max(axis=1)[:, None]),
        (pb.par_map(lambda p: p + 1, da.asarray(5)), np.asarray(6)),
        (pb.par_map(lambda p: p + 1, y[:0]), b[:0]),
        (pb.par_map(lambda p: p + 1, y[y > 0.5]), b[b > 0.5] + 1),
        (pnp.hypot(x, y), np.hypot(a, b)),
    ]:  # fmt: skip
        same(got, expected)
    # What is elementwise for certain stays in its blocks.
    assert pb.par_map(lambda p: p + 0.5, x, elementwise=True).chunks == x.chunks


def test_compiled_kernels_of_blocks():
    numba = pytest.importorskip("numba")
    kernel = numba.cfunc("float64(float64, float64)")(lambda p, q: p * q + 1)
    twice = numba.vectorize(lambda p: p * 2 > 1)
    a = RNG.random((40, 50))
    x = da.from_array(a, chunks=(15, 20))
    same(pb.par_map(kernel, x, x), a * a + 1)
    same(pb.par_map(twice, x), a > 0.5)
    with pytest.raises(TypeError, match=re.escape("arrays[0]: the kernel")):
        pb.par_map(kernel, x.astype("f4"), x)


def test_what_a_function_raises_has_its_traceback():
    def fails(block):
        raise ZeroDivisionError(len(block))

    got = pb.par_map(fails, da.from_array(DATA["random"], chunks=9_000), dtype=float)
    with pytest.raises(ZeroDivisionError) as caught:
        got.compute()
    assert caught.traceback[-1].name == "fails"


# ---- dask's own -------------------------------------------------------------


REDUCTIONS = """sum prod mean var std min max any all count_nonzero argmin argmax nansum nanmin
    nanmax cumsum cumprod"""


@pytest.mark.parametrize("name", re.findall(r"\w+", REDUCTIONS))
def test_reductions_by_dask(name):
    floats, integers = RNG.random((40, 50)) + 0.5, RNG.integers(0, 9, (40, 50)).astype("i2")
    for a in (floats, integers):
        x = da.from_array(a, chunks=(15, 20))
        for axis in (None, 0, -1):
            expected = getattr(np, name)(a, axis=axis)
            for module, prefix in ((pb, "par_"), (pnp, "")):
                got = getattr(module, prefix + name)(x, axis=axis)
                assert type(got) is da.Array
                assert (got.shape, got.dtype) == (np.shape(expected), expected.dtype)
                np.testing.assert_allclose(got.compute(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", [n for n in DATA if n not in ("records", "complex")])
def test_positions_of_extremes(name):
    a = DATA[name]
    for shape, chunks in ((-1, 9_000), (-1, CHUNKS[2]), ((N // 50, 50), (300, 20))):
        b = a[: N // 50 * 50].reshape(shape) if shape != -1 else a
        x = da.from_array(b, chunks=(chunks,) if shape == -1 and type(chunks) is tuple else chunks)
        same(pb.par_argmin(x), np.argmin(b))
        same(pb.par_argmax(x), np.argmax(b))
    same(pb.par_argmax(x, keepdims=True), np.argmax(b, keepdims=True))


# ---- the door -----------------------------------------------------------------


def test_subclasses_are_not_gathered():
    class Sub(da.Array):
        pass

    x = da.from_array(DATA["random"], chunks=9_000)
    sub = Sub(x.dask, x.name, x.chunks, dtype=x.dtype)
    assert isinstance(pb.par_sort(sub), da.Array)


def test_the_namespace_takes_them():
    x = da.from_array(DATA["random"], chunks=9_000)
    for got, expected in [
        (pnp.sort(x), np.sort(DATA["random"])),
        (pnp.argsort(x), np.argsort(DATA["random"])),
        (pnp.sum(x), DATA["random"].sum()),
        (pnp.sqrt(x), np.sqrt(DATA["random"])),
        (pnp.unique(x), np.unique(DATA["random"])),
        (pnp.searchsorted(pnp.sort(x), x), np.argsort(np.argsort(DATA["random"]))),
        (pnp.bincount(x.astype(int)), np.bincount(DATA["random"].astype(int))),
        (pnp.histogram(x)[0], np.histogram(DATA["random"])[0]),
    ]:
        assert type(got) is da.Array
        np.testing.assert_allclose(got.compute(), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: pb.par_sort(x, 1), np.exceptions.AxisError, "axis 1 is out of bounds"),
        (lambda x: pb.par_sort(x, out=np.empty(N)), TypeError, "out: not for dask arrays"),
        (lambda x: pb.par_argsort(x, order="f0"), TypeError, "order: not for dask arrays"),
        (lambda x: pb.par_sort(x, less=1), TypeError, "less: not for dask arrays"),
        (lambda x: pb.par_sort(x[x > 0.5]), ValueError, "call a.compute_chunk_sizes()"),
        (lambda x: pb.par_topk(x, N + 1), ValueError, f"k: must be from 0 to {N}, "),
        (lambda x: pb.par_sort(x, kind="foo"), ValueError, "kind"),
        (lambda x: pb.par_sort(x, kind="stable", stable=True), ValueError, "kind"),
        (lambda x: pb.par_sort(x.astype(object), descending=True), TypeError, "descending"),
        (lambda x: pb.par_sort(da.ma.masked_less(x, 0.5)), TypeError, "a: par_sort of dask arrays"),
        (lambda x: pb.par_topk(x, 3, 1), np.exceptions.AxisError, "axis 1 is out of bounds"),
        (lambda x: pb.par_reduce(sum, x), TypeError, "op: expected a ufunc"),
        (lambda x: pb.par_reduce(np.add, x, initial=1), TypeError, "initial: not for dask arrays"),
        (lambda x: pb.par_topk(x, 1.5), TypeError, "float"),
        (lambda x: pb.par_topk(x.reshape(1, N), 1), NotImplementedError, "of one axis"),
        (lambda x: pb.par_reduce(np.add, x, out=1), TypeError, "out: not for dask arrays"),
        (lambda x: pb.par_argmin(x, 1), np.exceptions.AxisError, "axis 1 is out of bounds"),
        (lambda x: pb.par_argmin(x, out=x), TypeError, "out: not for dask arrays"),
        (lambda x: pb.par_argmax(x[:0]), ValueError, "a: par_argmax of an empty array"),
        (lambda x: pb.par_unique(x, axis=1), np.exceptions.AxisError, "axis 1 is out of bounds"),
        (lambda x: pb.par_unique(x[x > 0.5], True), ValueError, "call ar.compute_chunk_sizes()"),
        (lambda x: pb.par_unique(da.ma.masked_less(x, 0.5)), TypeError, "ar: par_unique of dask"),
        (lambda x: pb.par_searchsorted(x.reshape(1, N), x), ValueError, "a: must have one dim"),
        (lambda x: pb.par_searchsorted(x, x, "middle"), ValueError, "side"),
        (lambda x: pb.par_searchsorted(x, x, sorter=x), TypeError, "sorter: must only contain"),
        (lambda x: pb.par_searchsorted(x, x, sorter=[1, 2]), ValueError, "sorter: shape (2,)"),
        (lambda x: pb.par_searchsorted([2, 3], x, sorter=[1]), ValueError, "sorter"),
        (lambda x: pb.par_searchsorted(x, x.astype("M8[s]")), TypeError, "not supported between"),
        (lambda x: pb.par_bincount(x), TypeError, "Cannot cast"),
        (
            lambda x: pb.par_bincount(x.astype(int).reshape(1, N)),
            ValueError,
            "x: must have one dim",
        ),
        (lambda x: pb.par_bincount(x.astype(int), x[1:]), ValueError, "weights: shape"),
        (
            lambda x: pb.par_bincount(x.astype(int), x[:9][x[:9] > 1]),
            ValueError,
            "weights: the sizes of all",
        ),
        (lambda x: pb.par_bincount(x.astype(int), minlength=-1), ValueError, "negative"),
        (lambda x: pb.par_bincount(x.astype(int) - 1).compute(), ValueError, "negative"),
        (lambda x: pb.par_histogram(x, [2, 1]), ValueError, "bins"),
        (lambda x: pb.par_histogram(x, 3, (2, 1)), ValueError, "range"),
        (lambda x: pb.par_histogram(x, "auto"), NotImplementedError, "bins: for dask arrays"),
        (lambda x: pb.par_histogram(x, 3, weights=x[1:]), ValueError, "weights: shape"),
        (lambda x: pyblitz.dask.par_group_by(x.reshape(1, N)), ValueError, "keys: must have one"),
        (lambda x: pyblitz.dask.par_group_by((x, x[1:])), ValueError, "keys[1]: shape"),
        (lambda x: pyblitz.dask.par_group_by(x[x > 0.5]), ValueError, "keys.compute_chunk_sizes()"),
        (lambda x: pyblitz.dask.par_group_by((x, x), descending=True), NotImplementedError, "desc"),
        (lambda x: pb.par_map(np.cumsum, x), ValueError, "fn: cumsum is not elementwise"),
        (
            lambda x: pb.par_map(lambda b: b - b.mean(), da.arange(300_000.0)).compute(),
            ValueError,
            "fn is not elementwise",
        ),
        (lambda x: pb.par_map(lambda b: b[1:], x).compute(), ValueError, "must be elementwise"),
        (lambda x: pb.par_map(lambda b: b, x, out=x), TypeError, "out: not for dask arrays"),
        (lambda x: pb.par_map(lambda b: b, x, where=x > 0), TypeError, "where: only a ufunc"),
        (lambda x: pb.par_map(lambda b, c: b, x, x[1:]), ValueError, "shape mismatch"),
        (lambda x: pb.par_map(7, x), TypeError, "fn: expected a ufunc"),
    ],
)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call(da.from_array(DATA["random"], chunks=9_000))


def test_docstrings():
    for name in pyblitz.dask.__all__:
        text = inspect.getdoc(getattr(pyblitz.dask, name))
        for section in ("Parameters", "Returns", "Raises", "Notes", "Examples"):
            assert f"\n{section}\n---" in text, (name, section)
    modules = {sys.modules[getattr(pyblitz.dask, name).__module__] for name in pyblitz.dask.__all__}
    for module in modules:
        failed, attempted = doctest.testmod(module)
        assert failed == 0 and attempted > 3  # noqa: PT018


# ---- in a cluster -----------------------------------------------------------

CLUSTER = """
import logging, os, signal, threading, time, traceback, sys
from concurrent.futures import CancelledError
import dask, numpy as np, dask.array as da
import pyblitz as pb, pyblitz.dask
def slow(block):
    time.sleep(0.1)
    return block
def broken(block):
    if block[0] > 0.5: raise ZeroDivisionError("a block's own")
    return block
def main(body, **options):
    from distributed import Client, LocalCluster
    options = dict(n_workers=3, threads_per_worker=1, dashboard_address=":0") | options
    with LocalCluster(silence_logs=logging.CRITICAL, **options) as cluster:
        with Client(cluster) as client:
            body(client)
"""


@pytest.fixture
def cluster(script, tmp_path):
    """Runs a function ``body(client)`` in a program of its own; what it printed."""
    pytest.importorskip("distributed")

    def run(body, options=""):
        (tmp_path / "prog.py").write_text(CLUSTER + body)
        start = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom prog import *\n"
        return script(start + f"main(body{options})\n", cwd=tmp_path).split()

    return run


def test_a_cluster_gives_the_same(cluster, full):
    assert (
        cluster(
            f"CHUNK = {25_000 if full else 75_000}"
            + """
def body(client):
    a = np.random.default_rng(1).integers(0, 10_000, 300_000)
    x = da.from_array(a, chunks=CHUNK)
    print((pb.par_sort(x).compute() == np.sort(a)).all())
    print((pb.par_argsort(x).compute() == np.argsort(a, kind="stable")).all())
    print((pb.par_topk(x, 9).values.compute() == np.sort(a)[:-10:-1]).all())
    for got, expected in [
        (pb.par_unique(x, return_inverse=True, return_counts=True),
         np.unique(a, return_inverse=True, return_counts=True)),
        ((pb.par_searchsorted(pb.par_sort(x), x),), (np.searchsorted(np.sort(a), a),)),
        ((pb.par_bincount(x),), (np.bincount(a),)),
        ((pb.par_histogram(x)), np.histogram(a)),
        (pyblitz.dask.par_group_by(x), pb.par_group_by(a)),
        ((pb.par_map(lambda block: block * 2, x),), (a * 2,)),
    ]:
        print(all((g == e).all() for g, e in zip(dask.compute(*got), expected, strict=True)))
"""
        )
        == ["True"] * 9
    )


def test_interrupts(cluster):
    """Ctrl-C, and a future that is cancelled: what was begun ends, and the next sort is right."""
    assert cluster(
        """
def body(client):
    a = np.random.default_rng(1).random(300_000)
    y = pb.par_sort(da.from_array(a, chunks=20_000).map_blocks(slow))
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        y.compute()
    except KeyboardInterrupt:
        print("interrupted")
    future = client.compute(y)
    time.sleep(0.2)
    future.cancel()
    try:
        future.result(timeout=20)
    except CancelledError:
        print("cancelled")
    del future
    waited = time.monotonic()
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        assert time.monotonic() - waited < 20
        time.sleep(0.01)
    print((pb.par_sort(da.from_array(a, chunks=100_000)).compute() == np.sort(a)).all())
""",
        ", n_workers=2",
    ) == ["interrupted", "cancelled", "True"]


@pytest.mark.skipif(sys.platform != "linux", reason="kills a process")
def test_a_worker_that_is_killed(cluster):
    """What it had is computed again, by others."""
    assert cluster("""
def body(client):
    a = np.random.default_rng(1).random(300_000)
    x = da.from_array(a, chunks=20_000).map_blocks(slow)
    pids = client.run(os.getpid)
    future = client.compute(pb.par_sort(x))
    time.sleep(0.5)     # in the middle: fifteen blocks take as many times 0.1 s, by three
    print(future.done())
    os.kill(min(pids.values()), signal.SIGKILL)
    print((future.result(timeout=40) == np.sort(a)).all())
    client.wait_for_workers(3, timeout=40)
    print(set(client.run(os.getpid).values()) == set(pids.values()))
""") == ["False", "True", "False"]


def test_what_a_block_raises(cluster):
    assert cluster("""
def body(client):
    x = da.from_array(np.linspace(0, 1, 300_000), chunks=20_000).map_blocks(broken)
    try:
        pb.par_sort(x).compute()
    except ZeroDivisionError as error:
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        print(*error.args, names[-1] == "broken")
    print(int(pb.par_sort(x[:100_000]).sum().compute()))
""") == ["a", "block's", "own", "True", "16666"]


def test_more_than_memory(cluster, full):
    """Two workers that keep 45 MB each sort 160 MB, or 9 MB each 32 MB; the rest they spill, and
    none is killed."""
    n, kept = (20_000_000, 0.15) if full else (4_000_000, 0.03)
    assert (
        cluster(
            f"""
import dask
dask.config.set({{"distributed.worker.memory.target": {kept}}})
def body(client):
    x = da.random.default_rng(1).random({n}, chunks={n // 20})
    pids = client.run(os.getpid)
    y = pb.par_sort(x).persist()
    ordered = da.all(y[1:] >= y[:-1])
    print(bool(ordered.compute()), abs(float((y.sum() / x.sum()).compute()) - 1) < 1e-12)
    print(client.run(os.getpid) == pids)
""",
            ", n_workers=2, memory_limit='300MB'",
        )
        == ["True"] * 3
    )


def test_nans_of_half_precision_in_records():
    a = np.array([np.nan, 1, 1, 0, 0, 0] * 50, "f2")
    b = np.tile([0, 0, 1], 100)
    mine, theirs = (
        pb.par_group_by((a, b)),
        pb.par_group_by((da.from_array(a, chunks=7), da.from_array(b, chunks=7))),
    )
    for got, expected in zip(theirs, mine, strict=True):
        np.testing.assert_array_equal(got.compute(), expected)
    records = np.empty(300, [("x", "f2"), ("y", "i4")])
    records["x"], records["y"] = a, b
    order = pb.par_argsort(da.from_array(records, chunks=7)).compute()
    np.testing.assert_array_equal(order, mine.order)
    assert pb.par_sort(da.from_array(records, chunks=7)).compute().dtype == records.dtype


def test_nans_among_objects_are_refused():
    """NumPy's comparisons of them are no order: elements would be lost."""
    a = da.from_array(np.array([2.0, np.nan, 1.0, np.nan, 2.0, 0.5], object), chunks=2)
    for lazy in (pb.par_sort(a), pb.par_argsort(a), pb.par_group_by(a).order):
        with pytest.raises(ValueError, match="NaN among objects"):
            lazy.compute()
    ordered = pb.par_sort(da.from_array(np.array([2.0, 1.0, 2.0, 0.5], object), chunks=2))
    assert ordered.compute().tolist() == [0.5, 1, 2, 2]


def test_distinct_text_of_variable_width():
    if not hasattr(np.dtypes, "StringDType"):
        pytest.skip("this NumPy has no text of variable width")
    a = np.array(["b", "a", "b", "cc"], np.dtypes.StringDType())
    assert pb.par_unique(da.from_array(a, chunks=2)).compute().tolist() == ["a", "b", "cc"]
