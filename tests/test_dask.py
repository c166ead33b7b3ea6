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
    failed, attempted = doctest.testmod(pyblitz.dask)
    assert failed == 0 and attempted > 10  # noqa: PT018


# ---- in a cluster -----------------------------------------------------------

CLUSTER = """
import logging, os, signal, threading, time, sys
import numpy as np, dask.array as da
import pyblitz as pb, pyblitz.dask
def slow(block):
    time.sleep(0.1)
    return block
def broken(block):
    if block[0] > 0.5: raise ZeroDivisionError("a block's own")
    return block
def main(body, **options):
    from distributed import Client, LocalCluster
    options = dict(n_workers=3, threads_per_worker=1, dashboard_address=None) | options
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


def test_a_cluster_gives_the_same(cluster):
    assert (
        cluster("""
def body(client):
    a = np.random.default_rng(1).integers(0, 10_000, 300_000)
    x = da.from_array(a, chunks=25_000)
    print((pb.par_sort(x).compute() == np.sort(a)).all())
    print((pb.par_argsort(x).compute() == np.argsort(a, kind="stable")).all())
    print((pb.par_topk(x, 9).values.compute() == np.sort(a)[:-10:-1]).all())
""")
        == ["True"] * 3
    )


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
        print(*error.args, error.__traceback__.tb_next is not None)
    print(int(pb.par_sort(x[:100_000]).sum().compute()))
""") == ["a", "block's", "own", "True", "16666"]


def test_more_than_memory(cluster):
    """Two workers that keep 45 MB each sort 160 MB; the rest they spill, and none is killed."""
    assert (
        cluster(
            """
import dask
dask.config.set({"distributed.worker.memory.target": 0.15})
def body(client):
    x = da.random.default_rng(1).random(20_000_000, chunks=1_000_000)
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
