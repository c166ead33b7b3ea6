"""joblib's backend "pyblitz"."""

import contextlib
import ctypes
import multiprocessing
import threading
import time

import numpy as np
import pytest

import pyblitz as pb

joblib = pytest.importorskip("joblib", "1.5")
from joblib import Parallel, delayed, parallel_config  # noqa: E402

import pyblitz.joblib  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def no_threads_afterwards():
    """Tests of pools count the threads of the process."""
    yield
    pool, pyblitz.joblib._pool = pyblitz.joblib._pool, None
    if pool is not None:
        pool.shutdown()


def where(k):
    return k, threading.get_ident()


@pytest.mark.parametrize("n", [0, 1, 10, 5000])
@pytest.mark.parametrize("options", [{}, {"batch_size": 7}, {"pre_dispatch": "all"}])
def test_results_in_order(n, options):
    got = Parallel(3, backend="pyblitz", **options)(delayed(where)(k) for k in range(n))
    assert [k for k, _ in got] == list(range(n))
    threads = {thread for _, thread in got}
    assert len(threads) <= 3
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("how", ["generator", "generator_unordered"])
def test_generators(how):
    got = Parallel(2, backend="pyblitz", return_as=how)(delayed(pow)(k, 2) for k in range(200))
    assert sorted(got) == [k * k for k in range(200)]


def test_the_threads_stay():
    calls = [Parallel(2, backend="pyblitz")(delayed(where)(k) for k in range(50)) for _ in range(5)]
    assert len({thread for got in calls for _, thread in got}) <= 2


def test_an_exception_ends_it():
    ran = []

    def work(k):
        ran.append(k)
        if k == 5:
            raise ValueError(f"job {k}")
        time.sleep(0.001)

    with pytest.raises(ValueError, match="job 5"):
        Parallel(2, backend="pyblitz", batch_size=1)(delayed(work)(k) for k in range(10_000))
    assert len(ran) < 1000
    # And the backend goes on.
    assert Parallel(2, backend="pyblitz")(delayed(abs)(-k) for k in range(3)) == [0, 1, 2]


def test_a_timeout():
    release = threading.Event()
    with pytest.raises((TimeoutError, multiprocessing.TimeoutError)):
        Parallel(2, backend="pyblitz", timeout=0.1)(delayed(release.wait)() for _ in range(4))
    release.set()


def test_calls_inside_of_jobs_make_no_threads():
    """Neither joblib's nor pyblitz's: k workers never run k * k threads."""
    threads = set()
    count = threading.Lock()
    most = 0

    def inner(k):
        threads.add(threading.get_ident())
        return k

    def outer(k):
        nonlocal most
        total = sum(Parallel(3)(delayed(inner)(j) for j in range(20)))
        assert pb.par_sum(np.ones(1_000_000)) == 1_000_000
        with count:
            most = max(most, threading.active_count())
        return total

    before = threading.active_count()
    with parallel_config("pyblitz", n_jobs=3):
        assert Parallel()(delayed(outer)(k) for k in range(12)) == [190] * 12
    assert len(threads) <= 3
    assert most - before <= 3


@pytest.mark.parametrize("inner", [None, 2])
def test_other_libraries_get_what_is_left(inner):
    """Also OpenMP's, which has a number for each thread."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with contextlib.suppress(OSError):
        ctypes.CDLL("libgomp.so.1")

    def limits():
        return [
            pool["num_threads"]
            for pool in threadpoolctl.threadpool_info()
            if pool["user_api"] in ("blas", "openmp")
        ]

    with threadpoolctl.threadpool_limits(3):
        before = limits()
        if not before:
            pytest.skip("NumPy has no BLAS that can be limited")
        with parallel_config("pyblitz", n_jobs=1000, inner_max_num_threads=inner):
            found = Parallel()(delayed(limits)() for _ in range(5))
        assert found == [[inner or 1] * len(before)] * 5
        assert limits() == before
        with pytest.raises(ZeroDivisionError), parallel_config("pyblitz", n_jobs=2):
            Parallel()(delayed(divmod)(1, k) for k in range(5))
        assert limits() == before


def test_numbers_of_jobs():
    backend = pyblitz.joblib.PyblitzBackend()
    assert backend.effective_n_jobs(None) == 1
    assert backend.effective_n_jobs(4) == 4
    assert backend.effective_n_jobs(-1) >= 1
    assert backend.effective_n_jobs(-10_000) == 1
    with pytest.raises(ValueError, match="n_jobs == 0"):
        backend.effective_n_jobs(0)
    # One job is the caller's own.
    assert Parallel(1, backend="pyblitz")([delayed(where)(0)]) == [(0, threading.get_ident())]


def test_scikit_learn():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    x, y = rng.random((400, 5)), rng.integers(0, 3, 400)

    def fitted(n_jobs):
        forest = ensemble.RandomForestClassifier(20, random_state=0, n_jobs=n_jobs)
        return forest.fit(x, y).predict_proba(x)

    expected = fitted(1)
    with parallel_config("pyblitz"):
        np.testing.assert_array_equal(fitted(3), expected)
