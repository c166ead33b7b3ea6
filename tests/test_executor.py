"""`ThreadPool` as an executor of the standard library."""

import asyncio
import concurrent.futures
import gc
import importlib.util
import itertools
import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

import pyblitz as pb

HERE = Path(__file__).resolve().parent


@pytest.fixture(params=[1, 3])
def pool(request):
    with pb.ThreadPool(max_workers=request.param) as pool:
        yield pool


def test_it_is_one(pool):
    assert isinstance(pool, concurrent.futures.Executor)
    assert pool.max_workers == pool.num_threads - 1
    with pb.ThreadPool(1) as alone:
        assert alone.max_workers == 1
    futures = [pool.submit(pow, 2, k) for k in range(9)]
    assert {f.result() for f in concurrent.futures.as_completed(futures)} == {
        2**k for k in range(9)
    }
    done, not_done = concurrent.futures.wait(futures)
    assert len(done) == 9
    assert not not_done


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_workers": 0}, ValueError, "max_workers must be greater than 0, not 0"),
        ({"max_workers": 1 << 20}, ValueError, "max_workers must be below 16384"),
        ({"max_workers": 2.5}, TypeError, "max_workers must be an integer, not float"),
        ({"max_workers": 2, "num_threads": 2}, TypeError, "not together with num_threads"),
    ],
)
def test_bad_max_workers(options, error, message):
    with pytest.raises(error, match=message):
        pb.ThreadPool(**options)


# ---- map -----------------------------------------------------------------------


@pytest.mark.parametrize("buffersize", [None, 1, 4, 1000])
@pytest.mark.parametrize("chunksize", [1, 7, 1000])
def test_map(pool, chunksize, buffersize):
    got = pool.map(pow, range(100), itertools.count(), chunksize=chunksize, buffersize=buffersize)
    assert iter(got) is got
    assert list(got) == [pow(k, k) for k in range(100)]
    assert list(pool.map(pow, [], [], chunksize=chunksize, buffersize=buffersize)) == []


@pytest.mark.parametrize("chunksize", [1, 4, 100])
def test_map_raises_where_the_call_did(pool, chunksize):
    """And what came before it is not lost."""
    got = pool.map(lambda k: 12 // (5 - k), range(20), chunksize=chunksize)
    assert [next(got) for _ in range(5)] == [2, 3, 4, 6, 12]
    with pytest.raises(ZeroDivisionError):
        next(got)
    assert list(got) == []


def test_map_reads_no_more_than_the_buffer(pool):
    read = []
    numbers = (read.append(k) or k for k in itertools.count())
    got = pool.map(str, numbers, chunksize=3, buffersize=2)
    assert read == list(range(6))
    assert [next(got) for _ in range(4)] == ["0", "1", "2", "3"]
    assert len(read) <= 12
    got.close()


def test_map_times_out(pool):
    release = threading.Event()
    got = pool.map(lambda k: release.wait() if k else k, range(50), timeout=0.05)
    assert next(got) == 0
    with pytest.raises(concurrent.futures.TimeoutError):
        next(got)
    # What had not begun never will.
    release.set()
    assert list(got) == []


def test_map_keeps_no_results(pool):
    class Thing:
        pass

    for thing in pool.map(lambda _: Thing(), range(10), chunksize=5):
        there = weakref.ref(thing)
        del thing
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            gc.collect()  # there an object belongs to the thread that made it, which sleeps
        assert there() is None


@pytest.mark.parametrize("name", ["chunksize", "buffersize"])
def test_bad_sizes(pool, name):
    with pytest.raises(ValueError, match=f"{name} must be greater than 0, not 0"):
        pool.map(abs, [1], **{name: 0})
    with pytest.raises(TypeError, match=f"{name} must be an integer, not str"):
        pool.map(abs, [1], **{name: "1"})


# ---- shutdown -------------------------------------------------------------------


def test_shutdown_without_waiting():
    release, ended = threading.Event(), threading.Event()
    pool = pb.ThreadPool(max_workers=1)
    first = pool.submit(release.wait)
    second = pool.submit(ended.set)
    pool.shutdown(wait=False)
    assert not first.done()
    with pytest.raises(RuntimeError, match="cannot schedule new futures"):
        pool.submit(abs, 1)
    release.set()
    assert ended.wait(30)
    pool.shutdown()
    assert second.done()
    pool.shutdown()  # again


@pytest.mark.parametrize("wait", [True, False])
def test_shutdown_cancels_what_has_not_begun(wait):
    began, release = threading.Event(), threading.Event()
    pool = pb.ThreadPool(max_workers=1)
    first = pool.submit(lambda: began.set() or release.wait())
    others = [pool.submit(abs, k) for k in range(50)]
    keyed = [pool.submit(abs, k, affinity="key") for k in range(50)]
    assert began.wait(30)
    threading.Timer(0.05, release.set).start()
    pool.shutdown(wait, cancel_futures=True)
    assert all(f.cancelled() for f in others + keyed)
    assert first.result(30) is True
    pool.shutdown()


def test_shutdown_from_inside(pool):
    def inside():
        with pytest.raises(RuntimeError, match="from inside itself"):
            pool.shutdown()
        pool.shutdown(wait=False)
        return "done"

    assert pool.submit(inside).result(30) == "done"
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(inside)


def test_nothing_is_remembered_of_what_has_begun(pool):
    """A pool that lives long does not grow."""

    class Result:
        pass

    future = pool.submit(Result)
    result = weakref.ref(future.result())
    there = weakref.ref(future)
    del future
    deadline = time.monotonic() + 30
    while (there() is not None or result() is not None) and time.monotonic() < deadline:
        pool.submit(abs, 1).result()
    assert there() is None
    assert result() is None


# ---- where an executor is asked for ------------------------------------------------


def test_asyncio(pool):
    async def main():
        loop = asyncio.get_running_loop()
        calls = [loop.run_in_executor(pool, pow, 2, k) for k in range(9)]
        wrapped = asyncio.wrap_future(pool.submit(pow, 3, 3))
        return await asyncio.gather(*calls, wrapped)

    assert asyncio.run(main()) == [2**k for k in range(9)] + [27]


def test_dask(pool):
    dask = pytest.importorskip("dask")
    threads = set()

    @dask.delayed
    def work(k):
        threads.add(threading.get_ident())
        return k * k

    total = dask.delayed(sum)([work(k) for k in range(20)])
    with dask.config.set(pool=pool, scheduler="threads"):
        assert total.compute() == sum(k * k for k in range(20))
    assert threading.get_ident() not in threads
    assert len(threads) <= pool.max_workers


@pytest.mark.skipif(
    importlib.util.find_spec("test.test_concurrent_futures") is None,
    reason="this Python was installed without its tests",
)
def test_cpythons_own_tests():
    done = subprocess.run(
        [sys.executable, HERE / "cpython_executors.py"],
        env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-5000:]
